// SPDX-License-Identifier: Apache-2.0
// ranks.h: the processes of one benchmark run, all of them the same program started again.
#ifndef HVD_BENCHMARKS_RANKS_H
#define HVD_BENCHMARKS_RANKS_H

#include <sys/types.h>

#include <string>
#include <vector>

namespace bench {

// A fresh directory, removed with all it holds when the object ends.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// N children running this executable with this program's arguments and `--rank R --directory D
// --ready-fd F`. None of them outlives this object.
class Ranks {
 public:
  Ranks(int size, const std::vector<std::string>& arguments, const std::string& directory);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // Waits until every rank has written one byte to its --ready-fd. False if one ended instead.
  bool wait_until_ready();
  // SIGSTOP or SIGCONT to all.
  void signal_all(int signal) const;
  // Lets ranks that wait for the end of their standard input go on, and waits for all. 0 if all
  // succeeded; if one failed, the others are killed and its exit status is returned.
  int finish();

 private:
  std::vector<pid_t> children_;
  int ready_fd_ = -1;
  int release_fd_ = -1;
};

}  // namespace bench

#endif
