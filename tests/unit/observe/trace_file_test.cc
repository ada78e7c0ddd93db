// SPDX-License-Identifier: Apache-2.0
// Whether the array in the file is whole after every append, after kills at any moment, and where
// the file must not grow.
#include "observe/trace_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <sstream>

namespace hvd::observe {
namespace {

std::string fresh_path() {
  static int count = 0;
  return ::testing::TempDir() + "trace-" + std::to_string(::getpid()) + "-" +
         std::to_string(++count) + ".json";
}

std::string content(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

// Lengths differ, so that elements end at all distances from the end of a page.
std::string element(size_t number) {
  return "{\"n\":" + std::to_string(number) + ",\"x\":\"" + std::string(number * 37 % 701, 'x') +
         "\"}";
}

void add(size_t first, size_t count, Elements* out) {
  for (size_t i = first; i < first + count; ++i) {
    out->text() += element(i);
    out->end();
  }
}

// How many elements the array has; -1 if this is not an array of element(0), element(1), ...
int64_t count_elements(std::string text) {
  const auto blank = [](char c) { return c == ' ' || c == '\n'; };
  while (!text.empty() && blank(text.back())) text.pop_back();
  if (text.empty() || text.front() != '[' || text.back() != ']') return -1;
  size_t at = 1;
  for (int64_t number = 0;; ++number) {
    while (blank(text[at])) ++at;
    if (text[at] == ']') return at + 1 == text.size() ? number : -1;
    if (number > 0 && text[at++] != ',') return -1;
    while (blank(text[at])) ++at;
    const std::string expected = element(static_cast<size_t>(number));
    if (text.compare(at, expected.size(), expected) != 0) return -1;
    at += expected.size();
  }
}

TEST(TraceFile, IsAWholeArrayAfterEveryAppend) {
  const std::string path = fresh_path();
  TraceFile file;
  ASSERT_TRUE(file.open(path).ok());
  EXPECT_EQ(count_elements(content(path)), 0);
  Elements elements;
  size_t written = 0;
  for (size_t batch = 1; batch < 60; ++batch) {
    add(written, batch, &elements);
    ASSERT_TRUE(file.append(&elements).ok());
    EXPECT_EQ(elements.count(), 0U);
    written += batch;
    ASSERT_EQ(count_elements(content(path)), static_cast<int64_t>(written));
  }
  EXPECT_GT(content(path).size(), 100 * TraceFile::kPage);
  ::unlink(path.c_str());
}

TEST(TraceFile, EmptiesTheFileThatWasThere) {
  const std::string path = fresh_path();
  std::ofstream(path) << std::string(10000, 'z');
  TraceFile file;
  ASSERT_TRUE(file.open(path).ok());
  EXPECT_EQ(count_elements(content(path)), 0);
  ::unlink(path.c_str());
}

TEST(TraceFile, NamesTheFileThatCannotBeMade) {
  TraceFile file;
  const Status status = file.open("/no/such/folder/t.json");
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_NE(status.message().find("/no/such/folder/t.json"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("No such file"), std::string::npos) << status.message();
}

// What a child does until it is killed: small and large batches without a pause.
[[noreturn]] void write_for_ever(const std::string& path, int ready) {
  TraceFile file;
  if (!file.open(path).ok()) ::_exit(1);
  (void)!::write(ready, "r", 1);
  Elements elements;
  for (size_t written = 0, batch = 1;; batch = batch % 97 + 1) {
    add(written, batch, &elements);
    if (!file.append(&elements).ok()) ::_exit(2);
    written += batch;
  }
}

TEST(TraceFile, IsWholeAfterAKillAtAnyMoment) {
  constexpr int kKills = 300;
  std::mt19937 random(7);
  int64_t most = 0;
  for (int i = 0; i < kKills; ++i) {
    const std::string path = fresh_path();
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) write_for_ever(path, ready[1]);
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    ::usleep(random() % 3000);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    const int64_t count = count_elements(content(path));
    ASSERT_GE(count, 0) << "kill " << i << " left " << path;
    most = std::max(most, count);
    ::close(ready[0]);
    ::close(ready[1]);
    ::unlink(path.c_str());
  }
  EXPECT_GT(most, 100);
}

// Files may grow to `bytes`; more fails as on a full disk.
class SizeLimit {
 public:
  explicit SizeLimit(rlim_t bytes) {
    before_handler_ = ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, before_handler_);
  }
  SizeLimit(const SizeLimit&) = delete;
  SizeLimit& operator=(const SizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*before_handler_)(int) = nullptr;
};

TEST(TraceFile, StaysWholeWhereItMustNotGrowAndGoesOnLater) {
  for (rlim_t limit = 3 * TraceFile::kPage - 40; limit < 3 * TraceFile::kPage + 40; ++limit) {
    const std::string path = fresh_path();
    TraceFile file;
    ASSERT_TRUE(file.open(path).ok());
    Elements elements;
    add(0, 200, &elements);
    {
      const SizeLimit full(limit);
      for (int attempt = 0; attempt < 3; ++attempt) {
        const Status status = file.append(&elements);
        EXPECT_EQ(status.code(), Code::kIo);
        EXPECT_NE(status.message().find(path), std::string::npos);
        const int64_t count = count_elements(content(path));
        ASSERT_EQ(count, static_cast<int64_t>(200 - elements.count())) << limit;
        ASSERT_GT(count, 10);
      }
    }
    ASSERT_TRUE(file.append(&elements).ok());
    EXPECT_EQ(count_elements(content(path)), 200);
    ::unlink(path.c_str());
  }
}

}  // namespace
}  // namespace hvd::observe
