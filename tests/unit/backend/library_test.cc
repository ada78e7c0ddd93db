// SPDX-License-Identifier: Apache-2.0
// Which plug-ins are taken, and the words in which others are refused.
#include "backend/plugin/library.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "backend/plugin/mpi_launch.h"

namespace hvd::backend::plugin {
namespace {

std::string folder() {
  const char* path = std::getenv("HVD_TEST_PLUGINS");
  return path == nullptr ? std::string() : path;
}

std::string refusal(const std::string& name, const std::string& where) {
  const Result<Library> library = Library::load(name, where);
  EXPECT_FALSE(library.ok()) << name;
  EXPECT_EQ(library.status().code(), Code::kUnsupported) << name;
  return library.status().message();
}

class LibraryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (folder().empty()) GTEST_SKIP() << "HVD_TEST_PLUGINS is not set; meson test sets it";
  }
};

TEST_F(LibraryTest, MissingFileIsNamedWithItsPath) {
  EXPECT_EQ(refusal("nothere", "/no/such/folder"),
            "backend nothere: no plug-in at /no/such/folder/hvd-backend-nothere.so; that folder "
            "has none");
}

TEST_F(LibraryTest, MissingFileNamesThePluginsThatAreThere) {
  const std::string text = refusal("shrot", folder());
  EXPECT_NE(text.find("hvd-backend-shrot.so; that folder has "), std::string::npos) << text;
  EXPECT_NE(text.find("otherabi, short"), std::string::npos) << text;
  EXPECT_NE(refusal("../plugins/short", folder()).find("no plug-in at "), std::string::npos);
}

TEST_F(LibraryTest, WithoutAFolderItIsLookedForBesideThisCode) {
  const std::string own = std::filesystem::canonical("/proc/self/exe").parent_path().string();
  EXPECT_EQ(refusal("nothere", ""), "backend nothere: no plug-in at " + own +
                                        "/hvd-backend-nothere.so; that folder has none");
}

TEST_F(LibraryTest, OtherAbiNamesBothNumbers) {
  const std::string text = refusal("otherabi", folder());
  EXPECT_EQ(text, "backend otherabi: " + folder() +
                      "/hvd-backend-otherabi.so has plug-in ABI 77, this libhvd has " +
                      std::to_string(kAbi));
}

TEST_F(LibraryTest, TableThatIsTooShortIsRefused) {
  EXPECT_NE(refusal("short", folder()).find("has a table of 24 bytes that lacks functions"),
            std::string::npos);
}

TEST_F(LibraryTest, LibraryWithoutTheEntryIsNoPlugin) {
  EXPECT_NE(refusal("noentry", folder()).find("is no plug-in: it lacks the symbol hvd_backend_v1"),
            std::string::npos);
}

TEST_F(LibraryTest, BrokenFileSaysWhyItDoesNotLoad) {
  const std::filesystem::path place =
      std::filesystem::temp_directory_path() / ("hvd-plugins-" + std::to_string(::getpid()));
  std::filesystem::create_directory(place);
  std::ofstream(place / "hvd-backend-broken.so") << "no library";
  const std::string text = refusal("broken", place.string());
  std::filesystem::remove_all(place);
  EXPECT_NE(text.find("backend broken: the plug-in does not load: "), std::string::npos) << text;
}

TEST_F(LibraryTest, MissingLibraryBehindThePluginIsSaid) {
  const Result<Library> library = Library::load("nolibrary", folder());
  ASSERT_TRUE(library.ok()) << library.status().message();
  const Result<std::string> version = library.value().version();
  ASSERT_FALSE(version.ok());
  EXPECT_EQ(version.status().code(), Code::kUnsupported);
  EXPECT_EQ(version.status().message(),
            "backend refused: libsomething.so.7 does not load: no such file");
}

TEST_F(LibraryTest, LaunchWithoutThePluginFailsAtOnce) {
  const Result<MpiLaunch> launch = MpiLaunch::start("/no/such/folder", false);
  ASSERT_FALSE(launch.ok());
  EXPECT_EQ(launch.status().message(),
            "backend mpi: no plug-in at /no/such/folder/hvd-backend-mpi.so; that folder has none");
}

}  // namespace
}  // namespace hvd::backend::plugin
