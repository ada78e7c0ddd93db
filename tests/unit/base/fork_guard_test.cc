// SPDX-License-Identifier: Apache-2.0
#include "base/fork_guard.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd {
namespace {

// The exit status of a child that runs `body`.
template <class Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ForkGuard, TellsTheChildFromTheParent) {
  const ForkGuard guard;
  EXPECT_FALSE(guard.forked());
  EXPECT_EQ(in_child([&] { return guard.forked() ? 42 : 1; }), 42);
  EXPECT_FALSE(guard.forked());
}

TEST(ForkGuard, TellsTheGrandchild) {
  const ForkGuard guard;
  EXPECT_EQ(in_child([&] { return in_child([&] { return guard.forked() ? 42 : 1; }); }), 42);
}

TEST(ForkGuard, AGuardMadeInTheChildBelongsToIt) {
  EXPECT_EQ(in_child([] {
              const ForkGuard guard;
              return guard.forked() ? 1 : 42;
            }),
            42);
}

}  // namespace
}  // namespace hvd
