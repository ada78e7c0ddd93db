// SPDX-License-Identifier: Apache-2.0
// The two XLA custom calls behind horovod.jax. Compiled on the user's machine against the headers in jaxlib, see _build.py.
//
// hvd_start hands an operation to the engine and returns at once with a ticket; hvd_done gives out its results. Between the
// two other operations start, so that ranks whose programs order operations differently do not wait for each other. Data
// travels in memory of this file: XLA takes its own back when a program fails, while other ranks still need the operation.
#include <dlfcn.h>
#include <hvd/hvd.h>

#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = xla::ffi;

// How long hvd_done drives the engine itself before it leaves the thread to XLA.
constexpr int64_t kPatienceNs = 50'000;

// As in horovod/_floor/constants.py.
enum Kind : int32_t { kAllreduce, kAllgather, kBroadcast, kAlltoall, kReducescatter };

// The functions of libhvd, which is loaded already, from wherever Python found it.
struct Library {
  decltype(&hvd_allreduce_async) allreduce;
  decltype(&hvd_grouped_allreduce_async) grouped_allreduce;
  decltype(&hvd_allgatherv_async) allgather;
  decltype(&hvd_grouped_allgatherv_async) grouped_allgather;
  decltype(&hvd_broadcast_async) broadcast;
  decltype(&hvd_alltoallv_async) alltoall;
  decltype(&hvd_reducescatter_async) reducescatter;
  decltype(&hvd_grouped_reducescatter_async) grouped_reducescatter;
  decltype(&hvd_process_set_find) set_find;
  decltype(&hvd_process_set_ranks) set_ranks;
  decltype(&hvd_process_set_free) set_free;
  decltype(&hvd_wait) wait;
  decltype(&hvd_handle_then) then;
  decltype(&hvd_handle_output) output;
  decltype(&hvd_handle_free) handle_free;
  decltype(&hvd_status_name) status_name;
  decltype(&hvd_dtype_size) dtype_size;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool load(void* from, Library& to) {
  return find(from, "hvd_allreduce_async", to.allreduce) && find(from, "hvd_grouped_allreduce_async", to.grouped_allreduce) &&
         find(from, "hvd_allgatherv_async", to.allgather) && find(from, "hvd_grouped_allgatherv_async", to.grouped_allgather) &&
         find(from, "hvd_broadcast_async", to.broadcast) && find(from, "hvd_alltoallv_async", to.alltoall) &&
         find(from, "hvd_reducescatter_async", to.reducescatter) &&
         find(from, "hvd_grouped_reducescatter_async", to.grouped_reducescatter) &&
         find(from, "hvd_process_set_find", to.set_find) && find(from, "hvd_process_set_ranks", to.set_ranks) &&
         find(from, "hvd_process_set_free", to.set_free) && find(from, "hvd_wait", to.wait) &&
         find(from, "hvd_handle_then", to.then) && find(from, "hvd_handle_output", to.output) &&
         find(from, "hvd_handle_free", to.handle_free) && find(from, "hvd_status_name", to.status_name) &&
         find(from, "hvd_dtype_size", to.dtype_size);
}

// Memory for data on its way. What was given back is kept for the next operation: fresh pages cost more than the copy.
class Room {
 public:
  struct Piece {
    std::unique_ptr<char[]> bytes;
    size_t size = 0;
  };

  Piece take(size_t size) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = free_.lower_bound(size);
      if (found != free_.end() && found->first <= 2 * size + 4096) {
        Piece piece{std::move(found->second), found->first};
        free_.erase(found);
        return piece;
      }
    }
    return {std::unique_ptr<char[]>(new char[size ? size : 1]), size};
  }

  void give_back(Piece piece) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_.size() >= kMost) free_.erase(free_.begin());
    free_.emplace(piece.size, std::move(piece.bytes));
  }

 private:
  static constexpr size_t kMost = 256;
  std::mutex mutex_;
  std::multimap<size_t, std::unique_ptr<char[]>> free_;
};

// Threads on which XLA goes on after an operation. The engine's own callback thread must not do that: the program may
// compute for long, or wait for another operation.
class Threads {
 public:
  void run(std::function<void()> work) {
    const std::lock_guard<std::mutex> lock(mutex_);
    works_.push_back(std::move(work));
    if (idle_ < works_.size())
      std::thread([this] { loop(); }).detach();
    else
      woken_.notify_one();
  }

 private:
  void loop() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      ++idle_;
      woken_.wait(lock, [this] { return !works_.empty(); });
      --idle_;
      const auto work = std::move(works_.front());
      works_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable woken_;
  std::deque<std::function<void()>> works_;
  size_t idle_ = 0;
};

// An operation between hvd_start and hvd_done.
struct Flight {
  hvd_handle* handle = nullptr;
  std::string label;
  bool in_place = false;  // the results are in `pieces`; else the library has allocated them
  std::vector<Room::Piece> pieces;
};

struct State {
  std::mutex mutex;
  Library library{};
  bool loaded = false;
  hvd_context* context = nullptr;
  uint64_t last_ticket = 0;
  std::unordered_map<uint64_t, std::unique_ptr<Flight>> flights;
  Room room;
  Threads threads;
};

// Never destroyed: threads of XLA and of the engine may outlive static objects.
State& state() {
  static State* const only = new State;
  return *only;
}

ffi::Error failure(hvd_status status, const std::string& label, const hvd_error& error) {
  const bool wrong_call = status > -20;
  return {wrong_call ? ffi::ErrorCode::kInvalidArgument : ffi::ErrorCode::kAborted,
          std::string(state().library.status_name(status)) + ": " + label + ": " + error.message};
}

ffi::Error not_initialized(const std::string& label) {
  return {ffi::ErrorCode::kFailedPrecondition, label + ": Horovod has not been initialized; use hvd.init()."};
}

hvd_dtype dtype_of(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::U8: return HVD_UINT8;
    case ffi::DataType::S8: return HVD_INT8;
    case ffi::DataType::U16: return HVD_UINT16;
    case ffi::DataType::S16: return HVD_INT16;
    case ffi::DataType::S32: return HVD_INT32;
    case ffi::DataType::S64: return HVD_INT64;
    case ffi::DataType::F16: return HVD_FLOAT16;
    case ffi::DataType::F32: return HVD_FLOAT32;
    case ffi::DataType::F64: return HVD_FLOAT64;
    case ffi::DataType::PRED: return HVD_BOOL;
    case ffi::DataType::BF16: return HVD_BFLOAT16;
    default: return -1;  // Python has refused it already
  }
}

// The process set a program was compiled for. Ids are used again, so its ranks are compared.
ffi::Error find_set(const Library& library, hvd_context* context, int32_t id, ffi::Span<const int32_t> ranks,
                    const std::string& label, hvd_process_set** found) {
  hvd_error error = HVD_ERROR_INIT;
  const hvd_status status = library.set_find(context, id, found, &error);
  if (status != HVD_OK) return failure(status, label, error);
  std::vector<int32_t> now(ranks.size() + 1);
  size_t count = now.size();
  if (library.set_ranks(*found, now.data(), &count, &error) == HVD_OK && count == ranks.size() &&
      std::memcmp(now.data(), ranks.begin(), count * sizeof(int32_t)) == 0)
    return ffi::Error::Success();
  library.set_free(*found);
  *found = nullptr;
  return {ffi::ErrorCode::kInvalidArgument,
          label + ": process set " + std::to_string(id) + " has other ranks now than when this was compiled"};
}

struct Request {
  int32_t kind;
  bool grouped;
  hvd_op_options options;
};

// Called with the mutex of the state held: the context must not go away meanwhile.
hvd_status submit(const Library& library, hvd_context* context, const Request& request, std::vector<hvd_tensor>& tensors,
                  Flight& flight, hvd_error& error) {
  const hvd_tensor* in = tensors.data();
  const hvd_op_options* options = &request.options;
  const size_t count = tensors.size();
  hvd_handle** handle = &flight.handle;
  switch (request.kind) {
    case kAllreduce:
      return request.grouped ? library.grouped_allreduce(context, in, in, count, options, handle, &error)
                             : library.allreduce(context, in, in, options, handle, &error);
    case kAllgather:
      return request.grouped ? library.grouped_allgather(context, in, nullptr, count, options, handle, &error)
                             : library.allgather(context, in, nullptr, options, handle, &error);
    case kBroadcast: return library.broadcast(context, in, in, options, handle, &error);
    case kAlltoall: return library.alltoall(context, in, nullptr, nullptr, options, handle, &error);
    default:
      return request.grouped ? library.grouped_reducescatter(context, in, nullptr, count, options, handle, &error)
                             : library.reducescatter(context, in, nullptr, options, handle, &error);
  }
}

ffi::Error start(ffi::RemainingArgs arguments, ffi::RemainingRets results, int32_t kind, int32_t grouped,
                 std::string_view name, std::string_view label_given, int32_t set, ffi::Span<const int32_t> ranks,
                 int32_t reduce_op, int32_t root, double prescale, double postscale) {
  State& own = state();
  const std::string label(label_given);
  auto flight = std::make_unique<Flight>();
  flight->label = label;
  flight->in_place = kind == kAllreduce || kind == kBroadcast;
  std::vector<hvd_tensor> tensors;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ffi::AnyBuffer buffer = *arguments.get<ffi::AnyBuffer>(i);
    if (buffer.element_type() == ffi::DataType::TOKEN) continue;
    Room::Piece piece = own.room.take(buffer.size_bytes());
    std::memcpy(piece.bytes.get(), buffer.untyped_data(), buffer.size_bytes());
    tensors.push_back({piece.bytes.get(), buffer.dimensions().begin(), static_cast<int32_t>(buffer.dimensions().size()),
                       dtype_of(buffer.element_type()), HVD_CPU, 0, {0, 0}});
    flight->pieces.push_back(std::move(piece));
  }
  Request request{kind, grouped != 0, HVD_OP_OPTIONS_INIT};
  const std::string name_text(name);
  request.options.name = name.empty() ? nullptr : name_text.c_str();
  request.options.reduce_op = reduce_op;
  request.options.root = root;
  request.options.prescale = prescale;
  request.options.postscale = postscale;

  const std::lock_guard<std::mutex> lock(own.mutex);
  if (own.context == nullptr) return not_initialized(label);
  if (set != 0) {
    const ffi::Error error = find_set(own.library, own.context, set, ranks, label, &request.options.set);
    if (error.failure()) return error;
  }
  hvd_error error = HVD_ERROR_INIT;
  const hvd_status status = submit(own.library, own.context, request, tensors, *flight, error);
  own.library.set_free(request.options.set);
  if (status != HVD_OK) return failure(status, label, error);
  const uint64_t ticket = ++own.last_ticket;
  own.flights.emplace(ticket, std::move(flight));
  for (size_t i = 0; i < results.size(); ++i) {
    const ffi::AnyBuffer buffer = **results.get<ffi::AnyBuffer>(i);
    if (buffer.element_type() != ffi::DataType::TOKEN) std::memcpy(buffer.untyped_data(), &ticket, sizeof(ticket));
  }
  return ffi::Error::Success();
}

struct Place {
  void* data;
  size_t size;
};

// Copies the results to where XLA wants them, or says why there are none.
ffi::Error finish(Flight& flight, hvd_status status, const hvd_error& error, const std::vector<Place>& places) {
  const Library& library = state().library;
  if (status != HVD_OK) return failure(status, flight.label, error);
  for (size_t i = 0; i < places.size(); ++i) {
    if (flight.in_place) {
      std::memcpy(places[i].data, flight.pieces[i].bytes.get(), places[i].size);
      continue;
    }
    hvd_tensor found{};
    hvd_error wrong = HVD_ERROR_INIT;
    const hvd_status got = library.output(flight.handle, i, &found, &wrong);
    if (got != HVD_OK) return failure(got, flight.label, wrong);
    size_t bytes = library.dtype_size(found.dtype);
    for (int32_t d = 0; d < found.ndim; ++d) bytes *= static_cast<size_t>(found.shape[d]);
    if (bytes != places[i].size) {
      const std::string rows = found.ndim > 0 ? std::to_string(found.shape[0]) : "1";
      return {ffi::ErrorCode::kInvalidArgument,
              flight.label + ": the result has " + rows + " rows, " + std::to_string(bytes) + " bytes, compiled for " +
                  std::to_string(places[i].size) + " bytes: under jit every rank's array must have the same shape"};
    }
    if (bytes) std::memcpy(places[i].data, found.data, bytes);
  }
  return ffi::Error::Success();
}

void let_go(Flight& flight) {
  State& own = state();
  own.library.handle_free(flight.handle);
  for (Room::Piece& piece : flight.pieces) own.room.give_back(std::move(piece));
}

// What hvd_done leaves behind when the operation takes longer.
struct Waiting {
  std::unique_ptr<Flight> flight;
  std::vector<Place> places;
  ffi::Promise promise;
};

void end(Waiting* waiting) {
  const std::unique_ptr<Waiting> owned(waiting);
  hvd_error error = HVD_ERROR_INIT;
  const hvd_status status = state().library.wait(owned->flight->handle, 0, &error);
  const ffi::Error result = finish(*owned->flight, status, error, owned->places);
  let_go(*owned->flight);
  if (result.success())
    owned->promise.SetAvailable();
  else
    owned->promise.SetError(result);
}

void ended(void* waiting, hvd_handle*, hvd_status) {
  state().threads.run([waiting] { end(static_cast<Waiting*>(waiting)); });
}

ffi::Future at_once(const ffi::Error& result) {
  ffi::Promise promise;
  ffi::Future future(promise);
  if (result.success())
    promise.SetAvailable();
  else
    promise.SetError(result);
  return future;
}

ffi::Future done(ffi::RemainingArgs arguments, ffi::RemainingRets results) {
  State& own = state();
  uint64_t ticket = 0;
  std::memcpy(&ticket, arguments.get<ffi::AnyBuffer>(0)->untyped_data(), sizeof(ticket));
  std::unique_ptr<Flight> flight;
  {
    const std::lock_guard<std::mutex> lock(own.mutex);
    const auto found = own.flights.find(ticket);
    if (found == own.flights.end())
      return at_once(ffi::Error(ffi::ErrorCode::kAborted, "HVD_ERR_SHUT_DOWN: this rank has shut down meanwhile"));
    flight = std::move(found->second);
    own.flights.erase(found);
  }
  std::vector<Place> places;
  for (size_t i = 0; i < results.size(); ++i) {
    const ffi::AnyBuffer buffer = **results.get<ffi::AnyBuffer>(i);
    places.push_back({buffer.untyped_data(), buffer.size_bytes()});
  }
  hvd_error error = HVD_ERROR_INIT;
  const hvd_status status = own.library.wait(flight->handle, kPatienceNs, &error);
  if (status != HVD_PENDING) {
    const ffi::Error result = finish(*flight, status, error, places);
    let_go(*flight);
    return at_once(result);
  }
  ffi::Promise promise;
  ffi::Future future(promise);
  hvd_handle* const handle = flight->handle;
  auto* waiting = new Waiting{std::move(flight), std::move(places), std::move(promise)};
  const hvd_status asked = own.library.then(handle, ended, waiting, &error);
  // Refused in no case that can come up here; a thread of ours can wait as well.
  if (asked != HVD_OK)
    own.threads.run([waiting, handle] {
      state().library.wait(handle, -1, nullptr);
      end(waiting);
    });
  return future;
}

}  // namespace

#define HVD_JAX_EXPORT extern "C" __attribute__((visibility("default")))
HVD_JAX_EXPORT XLA_FFI_Error* hvd_jax_start(XLA_FFI_CallFrame* frame);
HVD_JAX_EXPORT XLA_FFI_Error* hvd_jax_done(XLA_FFI_CallFrame* frame);

XLA_FFI_DEFINE_HANDLER_SYMBOL(hvd_jax_start, start,
                              ffi::Ffi::Bind()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<int32_t>("kind")
                                  .Attr<int32_t>("grouped")
                                  .Attr<std::string_view>("name")
                                  .Attr<std::string_view>("label")
                                  .Attr<int32_t>("set")
                                  .Attr<ffi::Span<const int32_t>>("ranks")
                                  .Attr<int32_t>("reduce_op")
                                  .Attr<int32_t>("root")
                                  .Attr<double>("prescale")
                                  .Attr<double>("postscale"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(hvd_jax_done, done, ffi::Ffi::Bind().RemainingArgs().RemainingRets());

// Operations go to this context from now on; NULL: to none, as after shutdown. 0 if the library lacks a function.
HVD_JAX_EXPORT int hvd_jax_bind(const char* library, hvd_context* context) {
  State& own = state();
  const std::lock_guard<std::mutex> lock(own.mutex);
  if (!own.loaded) {
    void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    own.loaded = handle != nullptr && load(handle, own.library);
    if (!own.loaded) return 0;
  }
  own.context = context;
  if (context == nullptr) {
    // Programs that failed have left these. What the engine may still touch stays.
    for (auto flight = own.flights.begin(); flight != own.flights.end();) {
      if (own.library.wait(flight->second->handle, 0, nullptr) == HVD_PENDING) {
        ++flight;
      } else {
        let_go(*flight->second);
        flight = own.flights.erase(flight);
      }
    }
  }
  return 1;
}
