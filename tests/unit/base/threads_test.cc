// SPDX-License-Identifier: Apache-2.0
#include "base/threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

namespace hvd {
namespace {

constexpr uid_t kNobody = 65534;

// What a child says in which this user may have so many processes and threads. For root there is no
// limit, so the child is nobody.
template <class Say>
std::string said_with_limit(rlim_t limit, Say&& say) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit both{limit, limit};
    bool ready = ::setrlimit(RLIMIT_NPROC, &both) == 0;
    ready = ready && (::getuid() != 0 || ::setuid(kNobody) == 0);
    const std::string text = ready ? say() : "this test cannot set a limit";
    ::_exit(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0
                                                                                            : 1);
  }
  ::close(ends[1]);
  std::array<char, 4096> text{};
  const ssize_t size = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return std::string(text.data(), size < 0 ? 0 : static_cast<size_t>(size));
}

TEST(Threads, TheLimitIsNamedWithWhatIsNeeded) {
  const std::string said = said_with_limit(1, [] {
    std::thread thread;
    const Status status = start_thread([] { ::pause(); }, "the thread of a test", &thread);
    return std::to_string(status.sys_errno()) + " " + status.message();
  });
  EXPECT_EQ(said, std::to_string(EAGAIN) +
                      " cannot start the thread of a test: Resource temporarily unavailable (11); "
                      "a rank needs up to 3 threads of its own, "
                      "and this user may have 1 processes and threads (RLIMIT_NPROC; ulimit -u "
                      "raises it), or the container has a "
                      "limit (pids.max of its cgroup, docker run --pids-limit)");
}

TEST(Threads, TheLimitInForceIsNamed) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NPROC, &limit), 0);
  const std::string said = thread_error("a thread", EAGAIN).message();
  const std::string number =
      limit.rlim_cur == RLIM_INFINITY ? "no limited number of" : std::to_string(limit.rlim_cur);
  EXPECT_NE(said.find("may have " + number + " processes and threads"), std::string::npos) << said;
  EXPECT_NE(said.find("pids.max"), std::string::npos) << said;
}

TEST(Threads, AnotherErrorIsNoLimit) {
  const Status status = thread_error("a thread", EINVAL);
  EXPECT_EQ(status.sys_errno(), EINVAL);
  EXPECT_EQ(status.message(), "cannot start a thread: Invalid argument (22)");
}

TEST(Threads, TheThreadRuns) {
  std::thread thread;
  bool ran = false;
  ASSERT_TRUE(start_thread([&] { ran = true; }, "a thread", &thread).ok());
  thread.join();
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace hvd
