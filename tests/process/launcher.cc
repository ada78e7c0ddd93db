// SPDX-License-Identifier: Apache-2.0
#include "process/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

namespace hvd::testing {

int64_t monotonic_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

Folder::Folder() {
  std::string name = std::filesystem::temp_directory_path().string() + "/hvd-process-XXXXXX";
  if (::mkdtemp(name.data()) != nullptr) path_ = name;
}

Folder::~Folder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Process::Process(const std::vector<std::string>& arguments) {
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) return;
  std::vector<char*> argv;
  std::string program = victim_path();
  argv.push_back(program.data());
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a driver that dies leaves no ranks
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::execv(program.c_str(), argv.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  in_ = in[1];
  out_ = out[0];
}

Process::~Process() {
  if (!reaped_ && pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(in_);
  ::close(out_);
}

void Process::signal(int number) const { ::kill(pid_, number); }

void Process::order(const std::string& line) {
  const std::string text = line + "\n";
  [[maybe_unused]] const ssize_t ignored = ::write(in_, text.data(), text.size());
}

bool Process::next_line(std::string* line, int64_t deadline) {
  for (;;) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      *line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      said_ = *line;
      return true;
    }
    const int64_t left = deadline - monotonic_ns();
    if (left <= 0) return false;
    pollfd entry{out_, POLLIN, 0};
    if (::poll(&entry, 1, static_cast<int>(left / 1'000'000) + 1) < 0 && errno != EINTR)
      return false;
    if (entry.revents == 0) continue;
    char bytes[4096];
    const ssize_t got = ::read(out_, bytes, sizeof bytes);
    if (got <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(got));
  }
}

std::string Process::expect(const std::string& prefix, int64_t timeout_ns) {
  const int64_t deadline = monotonic_ns() + timeout_ns;
  std::string line;
  while (next_line(&line, deadline)) {
    if (line.rfind(prefix, 0) == 0) return line;
    if (line.rfind("fail ", 0) == 0) return "";
  }
  return "";
}

std::vector<std::string> Process::until(const std::string& prefix, const std::string& last,
                                        int64_t timeout_ns) {
  const int64_t deadline = monotonic_ns() + timeout_ns;
  std::vector<std::string> lines;
  std::string line;
  while (next_line(&line, deadline)) {
    const bool end = line.rfind(last, 0) == 0;
    if (end || line.rfind(prefix, 0) == 0) lines.push_back(line);
    if (end) return lines;
  }
  return {};
}

int Process::wait(int64_t timeout_ns) {
  const int64_t deadline = monotonic_ns() + timeout_ns;
  while (!reaped_) {
    if (::waitpid(pid_, &status_, WNOHANG) == pid_) {
      reaped_ = true;
    } else if (monotonic_ns() > deadline) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      reaped_ = true;
      status_ = -1;
    } else {
      ::usleep(200);
    }
  }
  return status_;
}

std::string& victim_path() {
  static std::string path;
  return path;
}

std::vector<std::string> shared_memory_files() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored))
    names.push_back(entry.path());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace hvd::testing
