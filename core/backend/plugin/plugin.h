// SPDX-License-Identifier: Apache-2.0
// The boundary between libhvd and a plug-in, hvd-backend-<name>.so: a table of C functions over
// plain structs, because each side has a C++ runtime of its own. Nothing throws across it. Sizes
// come first and structs grow at the end only; a function that an older table lacks is null.
//
// Functions return numbers of hvd::Code: 0 done, 1 not yet, negative failed, with one line in
// `error`. Unless said otherwise they do not block and belong to one thread at a time per comm.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hvd::backend::plugin {

// The version of the whole boundary. A plug-in of another version is refused.
inline constexpr uint32_t kAbi = 1;
// The one symbol that a plug-in exports: `const Table* hvd_backend_v1(void)`.
inline constexpr char kEntry[] = "hvd_backend_v1";

// Where a failing function writes its line, NUL included; the caller's.
struct Text {
  char* data;
  size_t size;
};

// The settings that the user asked for. Pointers are valid during the call.
struct Settings {
  uint32_t struct_size;
  uint32_t one_thread;         // 1: every call into the library comes from one thread
  int64_t timeout_ms;          // for one operation inside the library, where it has such a limit
  const char* interface_name;  // network interface to use; "" leaves it to the plug-in
  // address to bind to if no interface is named; "" leaves it to the plug-in
  const char* address;
  uint64_t communicator;  // the MPI_Comm that the job's ranks are in; 0: MPI_COMM_WORLD
};

struct Group {
  uint32_t struct_size;
  int32_t id;    // the same on all members, different from every other open group's
  int32_t size;  // members
  int32_t me;    // own member index
};

// The functions of libhvd for a comm; valid as long as the comm.
struct Services {
  uint32_t struct_size;
  uint32_t reserved;
  void* self;
  // Each member gives `size` bytes and receives all members' in member order. Blocks, until the
  // deadline of the opening at most. Inside open() only, and there the same number of times on
  // every member.
  int32_t (*exchange)(void* self, const void* bytes, size_t size, void* all, Text error);
  // From any thread: poll() has news.
  void (*wake)(void* self);
  void (*log)(void* self, int32_t level, const char* line);
  // into[i] = a[i] op b[i]; into may be a or b.
  void (*reduce)(int32_t dtype, int32_t op, void* into, const void* a, const void* b, size_t count);
};

enum RequestKind : int32_t { kAllreduce = 0, kAllgather = 1, kBroadcast = 2, kAlltoall = 3 };

// A collective over contiguous memory. All of a request stays valid until poll() says that it is
// done, or abort() returns.
struct Request {
  uint32_t struct_size;
  int32_t kind;
  int32_t dtype;  // allreduce
  int32_t op;
  // broadcast: a member. allgather on_device: the member that has all parts and is sent none, or -1
  int32_t root;
  // 1, for allgather and alltoall: in and out may be memory of a CUDA device, whose context is the
  // calling thread's in every call from then on. The own part is left alone then, and there is no
  // limit to the bytes. Not before takes_device_memory() has said so.
  uint32_t on_device;
  // allreduce: may be out. broadcast: not looked at. allgather: the own part, may be inside out
  const void* in;
  void* out;
  size_t count;                 // allreduce: elements. broadcast: bytes
  const size_t* send_bytes;     // alltoall: per member
  const size_t* receive_bytes;  // allgather, alltoall: per member
};

// Where a process is among those that the library's own launcher started.
struct Launch {
  uint32_t struct_size;
  int32_t rank;
  int32_t size;
  int32_t local_rank;
  int32_t local_size;
  int32_t thread_level;  // as thread_level() says
};

struct Table {
  uint32_t struct_size;
  uint32_t abi;
  const char* name;
  // 1: progress is made by poll() alone, so it must be called until done; 0: wake() tells.
  uint32_t must_poll;
  uint32_t reserved;
  uint64_t max_bytes;  // a buffer of allreduce, allgather and broadcast has no more

  // Loads the library behind. On success `text` receives its name and version.
  int32_t (*load)(const Settings* settings, Text text);

  // Collective over the group; blocks. `services` outlives the comm.
  int32_t (*open)(const Settings* settings, const Group* group, const Services* services,
                  void** comm, Text error);
  void (*close)(void* comm);
  // Ends what is running, promptly; close() is all that may follow.
  void (*abort)(void* comm);
  // Whether an allreduce of this type and operator runs; the other kinds always do. The same on
  // every member.
  int32_t (*reduces)(const void* comm, int32_t dtype, int32_t op);
  // Starts a request, while no other one runs.
  int32_t (*start)(void* comm, const Request* request, Text error);
  int32_t (*poll)(void* comm, Text error);

  // For a library with a launcher of its own, otherwise null. Any thread.
  // Starts the library if it is not started. Blocks, and is collective over the launched processes.
  int32_t (*launch)(const Settings* settings, Launch* out, Text error);
  // Root's bytes reach all launched processes; collective, blocks. After launch().
  int32_t (*launch_broadcast)(const Settings* settings, void* bytes, size_t size, int32_t root,
                              Text error);
  // MPI_THREAD_SINGLE 0, FUNNELED 1, SERIALIZED 2, MULTIPLE 3; -1 while the library is not
  // initialised.
  int32_t (*thread_level)(void);
  // Whether requests may be on_device, otherwise `why` not. After open(), with a device's context.
  int32_t (*takes_device_memory)(const Settings* settings, Text why);
};

using Entry = const Table* (*)();

}  // namespace hvd::backend::plugin
