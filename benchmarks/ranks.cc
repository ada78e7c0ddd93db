// SPDX-License-Identifier: Apache-2.0
#include "ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace bench {
namespace {

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

// Looks only; finish() collects the exit status.
bool one_has_ended() {
  siginfo_t info{};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

[[noreturn]] void become_rank(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execv("/proc/self/exe", argv.data());
  fail("exec /proc/self/exe");
}

}  // namespace

ScratchDirectory::ScratchDirectory() {
  // In memory where there is such a place: the board would otherwise be written back to a disk
  // while it is used.
  const char* given = std::getenv("HVD_BENCH_DIRECTORY");
  const char* root = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
  path_ = std::string(given != nullptr ? given : root) + "/hvd-bench-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) fail(path_.c_str());
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Ranks::Ranks(int size, const std::vector<std::string>& arguments, const std::string& directory) {
  int ready[2];
  int release[2];
  if (pipe2(ready, 0) != 0 || pipe2(release, 0) != 0) fail("pipe");
  ready_fd_ = ready[0];
  release_fd_ = release[1];
  // The children must not hold the ends of the parent, or they would never see the end of their
  // standard input.
  fcntl(ready_fd_, F_SETFD, FD_CLOEXEC);
  fcntl(release_fd_, F_SETFD, FD_CLOEXEC);
  for (int rank = 0; rank < size; rank++) {
    const pid_t child = fork();
    if (child < 0) fail("fork");
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(release[0], STDIN_FILENO);
      close(release[0]);
      std::vector<std::string> all = arguments;
      const std::string fd = std::to_string(ready[1]);
      all.insert(all.end(),
                 {"--rank", std::to_string(rank), "--directory", directory, "--ready-fd", fd});
      become_rank(all);
    }
    children_.push_back(child);
  }
  close(ready[1]);
  close(release[0]);
}

Ranks::~Ranks() {
  for (pid_t child : children_) kill(child, SIGKILL);
  for (pid_t child : children_) waitpid(child, nullptr, 0);
  close(ready_fd_);
  if (release_fd_ >= 0) close(release_fd_);
}

bool Ranks::wait_until_ready() {
  for (size_t i = 0; i < children_.size(); i++) {
    char byte = 0;
    pollfd readable{ready_fd_, POLLIN, 0};
    while (poll(&readable, 1, 200) == 0) {
      if (one_has_ended()) return false;
    }
    if (read(ready_fd_, &byte, 1) != 1) return false;
  }
  return true;
}

void Ranks::signal_all(int signal) const {
  for (pid_t child : children_) kill(child, signal);
}

int Ranks::finish() {
  close(release_fd_);
  release_fd_ = -1;
  while (!children_.empty()) {
    int status = 0;
    const pid_t child = wait(&status);
    children_.erase(std::remove(children_.begin(), children_.end(), child), children_.end());
    if (status != 0) return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  }
  return 0;
}

}  // namespace bench
