// SPDX-License-Identifier: Apache-2.0
#include "base/fault_record.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace hvd {
namespace {

class FaultRecordTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  std::string written() const {
    const std::ifstream file(path_);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const std::string path_ = ::testing::TempDir() + "fault." + std::to_string(::getpid());
};

Status lost(int rank) { return Status(Code::kPeerLost, "gone").with_rank(rank); }

TEST_F(FaultRecordTest, TheFirstOtherRankIsWrittenDown) {
  FaultRecord record(path_);
  record.set_place(1, 4);
  record.note(lost(1));  // itself
  record.note(Status(Code::kShutDown, "this rank has shut down"));
  record.note(Status(Code::kMismatch, "ranks disagree").with_rank(2));
  EXPECT_EQ(written(), "");
  record.note(Status(Code::kShutDown, "left").with_rank(3));
  record.note(lost(2));
  EXPECT_EQ(written().find("blames 3 of 4 at "), 0u);
  EXPECT_EQ(written().find('\n'), written().size() - 1);
}

TEST_F(FaultRecordTest, ANewContextBeginsAnew) {
  FaultRecord first(path_);
  first.set_place(0, 2);
  first.note(lost(1));
  EXPECT_NE(written(), "");
  const FaultRecord second(path_);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(FaultRecordTest, WithoutAPathNothingIsWritten) {
  FaultRecord record("");
  record.note(lost(1));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace hvd
