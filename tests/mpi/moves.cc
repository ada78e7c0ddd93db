// SPDX-License-Identifier: Apache-2.0
// A process that mpirun starts: asks a real MPI whether it can be given memory of devices, and has
// the plug-in make the moves that it makes of such memory. The memory is the host's, which MPI
// reads and writes in the same way.
//
//   moves FOLDER      the folder of the plug-ins
#include <cstdio>
#include <cstring>
#include <numeric>
#include <vector>

#include "backend/plugin/library.h"

namespace {

using namespace hvd::backend::plugin;

constexpr char kUntouched = '.';

struct Job {
  const Table& table;
  Settings settings;
  Launch place{};
  char text[512] = {};

  Text error() { return {text, sizeof text}; }
};

// By broadcasts, before there is a comm.
int32_t exchange(void* self, const void* bytes, size_t size, void* all, Text error) {
  Job& job = *static_cast<Job*>(self);
  std::memcpy(static_cast<char*>(all) + size * static_cast<size_t>(job.place.rank), bytes, size);
  for (int32_t root = 0; root < job.place.size; ++root) {
    char* const part = static_cast<char*>(all) + size * static_cast<size_t>(root);
    if (const int32_t code = job.table.launch_broadcast(&job.settings, part, size, root, error);
        code != 0)
      return code;
  }
  return 0;
}

bool run(Job& job, void* comm, const Request& request) {
  int32_t code = job.table.start(comm, &request, job.error());
  while (code == 0 && (code = job.table.poll(comm, job.error())) == 1) code = 0;
  if (code != 0) std::fprintf(stderr, "rank %d: %s\n", job.place.rank, job.text);
  return code == 0;
}

// What member m has for member `to`, m + 1 units of it.
char letter(size_t m, size_t to) { return static_cast<char>('a' + 5 * m + to); }

// `complete` receives nothing.
bool gathers(Job& job, void* comm, size_t unit, int32_t complete) {
  std::vector<size_t> bytes;
  for (int32_t m = 0; m < job.place.size; ++m) bytes.push_back(unit * static_cast<size_t>(m + 1));
  const auto me = static_cast<size_t>(job.place.rank);
  const std::vector<char> in(bytes[me], letter(me, 0));
  std::vector<char> expected;
  for (size_t m = 0; m < bytes.size(); ++m) {
    expected.insert(expected.end(), bytes[m],
                    m == me || job.place.rank == complete ? kUntouched : letter(m, 0));
  }
  std::vector<char> out(std::accumulate(bytes.begin(), bytes.end(), size_t{0}), kUntouched);
  Request request{};
  request.struct_size = sizeof request;
  request.kind = kAllgather;
  request.root = complete;
  request.on_device = 1;
  request.in = in.data();
  request.out = out.data();
  request.receive_bytes = bytes.data();
  return run(job, comm, request) && out == expected;
}

bool exchanges(Job& job, void* comm, size_t unit) {
  const auto me = static_cast<size_t>(job.place.rank);
  const auto n = static_cast<size_t>(job.place.size);
  const std::vector<size_t> sent(n, unit * (me + 1));
  std::vector<size_t> received;
  std::vector<char> in;
  std::vector<char> expected;
  for (size_t m = 0; m < n; ++m) {
    received.push_back(unit * (m + 1));
    in.insert(in.end(), sent[m], letter(me, m));
    expected.insert(expected.end(), received[m], m == me ? kUntouched : letter(m, me));
  }
  std::vector<char> out(std::accumulate(received.begin(), received.end(), size_t{0}), kUntouched);
  Request request{};
  request.struct_size = sizeof request;
  request.kind = kAlltoall;
  request.on_device = 1;
  request.in = in.data();
  request.out = out.data();
  request.send_bytes = sent.data();
  request.receive_bytes = received.data();
  return run(job, comm, request) && out == expected;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const hvd::Result<Library> library = Library::load("mpi", argv[1]);
  if (!library.ok()) return std::fprintf(stderr, "%s\n", library.status().message().c_str()), 1;
  Job job{library.value().table(), LibrarySettings{}.settings()};
  if (job.table.launch(&job.settings, &job.place, job.error()) != 0)
    return std::fprintf(stderr, "%s\n", job.text), 1;
  Services services{};
  services.struct_size = sizeof services;
  services.self = &job;
  services.exchange = exchange;
  services.wake = [](void*) {};
  services.log = [](void*, int32_t, const char* line) { std::fprintf(stderr, "%s\n", line); };
  const Group group{sizeof(Group), 1, job.place.size, job.place.rank};
  void* comm = nullptr;
  if (job.table.open(&job.settings, &group, &services, &comm, job.error()) != 0) {
    return std::fprintf(stderr, "%s\n", job.text), 1;
  }
  const bool aware = job.table.takes_device_memory(&job.settings, job.error()) == 0;
  bool good = true;
  for (const size_t unit : {size_t{0}, size_t{1}, size_t{100'000}}) {
    good = gathers(job, comm, unit, -1) && good;
    good = gathers(job, comm, unit, 1) && good;
    good = exchanges(job, comm, unit) && good;
  }
  job.table.close(comm);
  std::printf("rank %d: moves %s, %s\n", job.place.rank, good ? "good" : "WRONG",
              aware ? "CUDA-aware" : job.text);
  return good ? 0 : 1;
}
