// SPDX-License-Identifier: Apache-2.0
#include "backend/plugin/exchange.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace hvd::backend::plugin {
namespace {

// Looks without result before the waiting thread naps between them: the others may be seconds away,
// loading their library.
constexpr int kEagerLooks = 2000;
constexpr auto kNap = std::chrono::microseconds(50);

enum Step : uint32_t { kGives = 0, kConcludes = 1 };

}  // namespace

// Goes ahead of every exchange, so that members who are at different places find out.
struct Exchange::Note {
  uint32_t step = kGives;
  int32_t code = 0;
  uint64_t size = 0;
  char text[496] = {};

  void say(const std::string& line) { std::strncpy(text, line.c_str(), sizeof text - 1); }
  std::string said() const { return {text, strnlen(text, sizeof text)}; }
};

Status Exchange::gather(const void* bytes, size_t size, void* all) {
  const std::vector<size_t> parts(ranks_.size(), size);
  Item item;
  item.in = bytes;
  item.out = all;
  item.count = size * ranks_.size();
  item.parts = parts;
  Work work;
  work.kind = Kind::kAllgather;
  work.items = {&item, 1};
  HVD_TRY(comm_.start(work));
  Time patience = kNever;
  for (int looks = 0;;) {
    const Progress progress = comm_.poll();
    if (progress == Progress::kDone) return comm_.result();
    if (progress == Progress::kMoved) {
      looks = 0;
      continue;
    }
    const Status trouble = around_.trouble();
    if (!trouble.ok()) patience = std::min(patience, now() + around_.last_words);
    if (now() >= patience) {
      comm_.abort();
      return trouble;
    }
    if (now() >= deadline_) {
      const int member = comm_.waiting_for();
      comm_.abort();
      const int rank = member < 0 ? -1 : ranks_[static_cast<size_t>(member)];
      return Status(Code::kTimeout,
                    "no answer" + (rank < 0 ? std::string() : " of " + around_.describe(rank)) +
                        " while the set was being opened")
          .with_rank(rank);
    }
    if (++looks < kEagerLooks) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
}

Status Exchange::notes(const Note& mine, std::vector<Note>* all) {
  HVD_TRY(over_);
  all->resize(ranks_.size());
  over_ = gather(&mine, sizeof mine, all->data());
  HVD_TRY(over_);
  for (size_t m = 0; m < all->size(); ++m) {
    const Note& note = (*all)[m];
    if (note.code == 0) continue;
    over_ = Status(static_cast<Code>(note.code), around_.describe(ranks_[m]) + ": " + note.said())
                .with_rank(ranks_[m]);
    return over_;
  }
  for (size_t m = 0; m < all->size(); ++m) {
    const Note& note = (*all)[m];
    if (note.step == mine.step && note.size == mine.size) continue;
    over_ =
        Status(Code::kInternal, around_.describe(ranks_[m]) +
                                    " opens the set in another way: " + std::to_string(note.size) +
                                    " bytes where this rank gives " + std::to_string(mine.size));
    return over_;
  }
  return {};
}

Status Exchange::give(const void* bytes, size_t size, void* all) {
  Note mine;
  mine.size = size;
  std::vector<Note> found;
  HVD_TRY(notes(mine, &found));
  if (size == 0) return {};
  over_ = gather(bytes, size, all);
  return over_;
}

Status Exchange::fail(const Status& why) {
  if (!over_.ok()) return why;
  Note mine;
  mine.code = static_cast<int32_t>(why.code());
  mine.say(why.message());
  std::vector<Note> found;
  const Status told = notes(mine, &found);
  return told.rank() == ranks_[static_cast<size_t>(me_)] ? why : told;
}

Status Exchange::conclude(const Status& mine) {
  if (!mine.ok()) return fail(mine);
  Note note;
  note.step = kConcludes;
  std::vector<Note> found;
  return notes(note, &found);
}

}  // namespace hvd::backend::plugin
