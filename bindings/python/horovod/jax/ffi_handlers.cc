// SPDX-License-Identifier: Apache-2.0
// The two XLA custom calls behind horovod.jax. Compiled on the user's machine against the headers
// in jaxlib, see _build.py.
//
// hvd_start hands an operation to the engine and returns at once with a ticket; hvd_done gives out
// its results. Between the two other operations start, so that ranks whose programs order
// operations differently do not wait for each other. Data travels in memory of this file: XLA takes
// its own back when a program fails, while other ranks still need the operation.
#include <dlfcn.h>
#include <hvd/hvd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ffi_support.h"
#include "kinds.h"
#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = xla::ffi;
using hvd::jax::Library;
using hvd::jax::Room;
using hvd::jax::Threads;

// How long hvd_done drives the engine itself before it leaves the thread to XLA.
constexpr int64_t kPatienceNs = 50'000;

// An operation between hvd_start and hvd_done.
struct InFlightOp {
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
  std::unordered_map<uint64_t, std::unique_ptr<InFlightOp>> in_flight;
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
  return {ffi::ErrorCode::kFailedPrecondition,
          label + ": Horovod has not been initialized; use hvd.init()."};
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
    case ffi::DataType::U32: return HVD_UINT32;
    case ffi::DataType::U64: return HVD_UINT64;
    case ffi::DataType::C64: return HVD_COMPLEX64;
    case ffi::DataType::C128: return HVD_COMPLEX128;
    case ffi::DataType::F8E3M4: return HVD_FLOAT8_E3M4;
    case ffi::DataType::F8E4M3: return HVD_FLOAT8_E4M3;
    case ffi::DataType::F8E4M3B11FNUZ: return HVD_FLOAT8_E4M3B11FNUZ;
    case ffi::DataType::F8E4M3FN: return HVD_FLOAT8_E4M3FN;
    case ffi::DataType::F8E4M3FNUZ: return HVD_FLOAT8_E4M3FNUZ;
    case ffi::DataType::F8E5M2: return HVD_FLOAT8_E5M2;
    case ffi::DataType::F8E5M2FNUZ: return HVD_FLOAT8_E5M2FNUZ;
    case ffi::DataType::F8E8M0FNU: return HVD_FLOAT8_E8M0FNU;
    default: return -1;  // Python has refused it already
  }
}

// The process set a program was compiled for. Ids are used again, so its ranks are compared.
ffi::Error find_set(const Library& library, hvd_context* context, int32_t id,
                    ffi::Span<const int32_t> ranks, const std::string& label,
                    hvd_process_set** found) {
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
  return {ffi::ErrorCode::kInvalidArgument, label + ": process set " + std::to_string(id) +
                                                " has other ranks now than when this was compiled"};
}

struct Request {
  int32_t kind;
  bool grouped;
  hvd_op_options options;
};

// Called with the mutex of the state held: the context must not go away meanwhile.
hvd_status submit(const Library& library, hvd_context* context, const Request& request,
                  std::vector<hvd_tensor>& tensors, InFlightOp& op, hvd_error& error) {
  const hvd_tensor* in = tensors.data();
  const hvd_op_options* options = &request.options;
  const hvd_tensor* out = op.in_place ? in : nullptr;
  hvd_handle** handle = &op.handle;
  if (hvd::kKindTraits[request.kind].splits)
    return library.alltoall(context, in, nullptr, out, options, handle, &error);
  if (request.grouped)
    return library.grouped[request.kind](context, in, out, tensors.size(), options, handle, &error);
  return library.single[request.kind](context, in, out, options, handle, &error);
}

ffi::Error start(ffi::RemainingArgs arguments, ffi::RemainingRets results, int32_t kind,
                 int32_t grouped, std::string_view name, std::string_view label_given, int32_t set,
                 ffi::Span<const int32_t> ranks, int32_t reduce_op, int32_t root, double prescale,
                 double postscale) {
  State& own = state();
  const std::string label(label_given);
  auto op = std::make_unique<InFlightOp>();
  op->label = label;
  op->in_place = hvd::kKindTraits[kind].same;
  std::vector<hvd_tensor> tensors;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ffi::AnyBuffer buffer = *arguments.get<ffi::AnyBuffer>(i);
    if (buffer.element_type() == ffi::DataType::TOKEN) continue;
    Room::Piece piece = own.room.take(buffer.size_bytes());
    std::memcpy(piece.bytes.get(), buffer.untyped_data(), buffer.size_bytes());
    tensors.push_back({piece.bytes.get(),
                       buffer.dimensions().begin(),
                       static_cast<int32_t>(buffer.dimensions().size()),
                       dtype_of(buffer.element_type()),
                       HVD_CPU,
                       0,
                       {0, 0}});
    op->pieces.push_back(std::move(piece));
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
    const ffi::Error error =
        find_set(own.library, own.context, set, ranks, label, &request.options.set);
    if (error.failure()) return error;
  }
  hvd_error error = HVD_ERROR_INIT;
  const hvd_status status = submit(own.library, own.context, request, tensors, *op, error);
  own.library.set_free(request.options.set);
  if (status != HVD_OK) return failure(status, label, error);
  const uint64_t ticket = ++own.last_ticket;
  own.in_flight.emplace(ticket, std::move(op));
  for (size_t i = 0; i < results.size(); ++i) {
    const ffi::AnyBuffer buffer = **results.get<ffi::AnyBuffer>(i);
    if (buffer.element_type() != ffi::DataType::TOKEN)
      std::memcpy(buffer.untyped_data(), &ticket, sizeof(ticket));
  }
  return ffi::Error::Success();
}

struct Place {
  void* data;
  size_t size;
};

// Copies the results to where XLA wants them, or says why there are none.
ffi::Error finish(InFlightOp& op, hvd_status status, const hvd_error& error,
                  const std::vector<Place>& places) {
  const Library& library = state().library;
  if (status != HVD_OK) return failure(status, op.label, error);
  for (size_t i = 0; i < places.size(); ++i) {
    if (op.in_place) {
      std::memcpy(places[i].data, op.pieces[i].bytes.get(), places[i].size);
      continue;
    }
    hvd_tensor found{};
    hvd_error wrong = HVD_ERROR_INIT;
    const hvd_status got = library.output(op.handle, i, &found, &wrong);
    if (got != HVD_OK) return failure(got, op.label, wrong);
    size_t bytes = library.dtype_size(found.dtype);
    for (int32_t d = 0; d < found.ndim; ++d) bytes *= static_cast<size_t>(found.shape[d]);
    if (bytes != places[i].size) {
      const std::string rows = found.ndim > 0 ? std::to_string(found.shape[0]) : "1";
      return {ffi::ErrorCode::kInvalidArgument,
              op.label + ": the result has " + rows + " rows, " + std::to_string(bytes) +
                  " bytes, compiled for " + std::to_string(places[i].size) +
                  " bytes: under jit every rank's array must have the same shape"};
    }
    if (bytes) std::memcpy(places[i].data, found.data, bytes);
  }
  return ffi::Error::Success();
}

void let_go(InFlightOp& op) {
  State& own = state();
  own.library.handle_free(op.handle);
  for (Room::Piece& piece : op.pieces) own.room.give_back(std::move(piece));
}

// What hvd_done leaves behind when the operation takes longer.
struct Waiting {
  std::unique_ptr<InFlightOp> op;
  std::vector<Place> places;
  ffi::Promise promise;
};

void end(Waiting* waiting) {
  const std::unique_ptr<Waiting> owned(waiting);
  hvd_error error = HVD_ERROR_INIT;
  const hvd_status status = state().library.wait(owned->op->handle, 0, &error);
  const ffi::Error result = finish(*owned->op, status, error, owned->places);
  let_go(*owned->op);
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
  std::unique_ptr<InFlightOp> op;
  {
    const std::lock_guard<std::mutex> lock(own.mutex);
    const auto found = own.in_flight.find(ticket);
    if (found == own.in_flight.end())
      return at_once(ffi::Error(ffi::ErrorCode::kAborted,
                                "HVD_ERR_SHUT_DOWN: this rank has shut down meanwhile"));
    op = std::move(found->second);
    own.in_flight.erase(found);
  }
  std::vector<Place> places;
  for (size_t i = 0; i < results.size(); ++i) {
    const ffi::AnyBuffer buffer = **results.get<ffi::AnyBuffer>(i);
    places.push_back({buffer.untyped_data(), buffer.size_bytes()});
  }
  hvd_error error = HVD_ERROR_INIT;
  const hvd_status status = own.library.wait(op->handle, kPatienceNs, &error);
  if (status != HVD_PENDING) {
    const ffi::Error result = finish(*op, status, error, places);
    let_go(*op);
    return at_once(result);
  }
  ffi::Promise promise;
  ffi::Future future(promise);
  hvd_handle* const handle = op->handle;
  auto* waiting = new Waiting{std::move(op), std::move(places), std::move(promise)};
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

// Operations go to this context from now on; NULL: to none, as after shutdown. 0 if the library
// lacks a function.
HVD_JAX_EXPORT int hvd_jax_bind(const char* library, hvd_context* context) {
  State& own = state();
  const std::lock_guard<std::mutex> lock(own.mutex);
  if (!own.loaded) {
    void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    own.loaded = handle != nullptr && hvd::jax::load(handle, own.library);
    if (!own.loaded) return 0;
  }
  own.context = context;
  if (context == nullptr) {
    // Programs that failed have left these. What the engine may still touch stays.
    for (auto op = own.in_flight.begin(); op != own.in_flight.end();) {
      if (own.library.wait(op->second->handle, 0, nullptr) == HVD_PENDING) {
        ++op;
      } else {
        let_go(*op->second);
        op = own.in_flight.erase(op);
      }
    }
  }
  return 1;
}
