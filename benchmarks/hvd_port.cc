// SPDX-License-Identifier: Apache-2.0
#include "hvd_port.h"

#include <string_view>

namespace bench {
namespace {

hvd_tensor vector_of(const float* data, const int64_t* count) {
  hvd_tensor tensor{};
  tensor.data = const_cast<float*>(data);
  tensor.shape = count;
  tensor.ndim = 1;
  tensor.dtype = HVD_FLOAT32;
  tensor.device_type = HVD_CPU;
  return tensor;
}

HvdPort& port_of(void* self) { return *static_cast<HvdPort*>(self); }

}  // namespace

HvdPort::HvdPort(const char* program, int rank, int size, const std::string& rendezvous)
    : program_(program), rank_(rank), size_(size) {
  hvd_init_options options = HVD_INIT_OPTIONS_INIT;
  options.rank = rank;
  options.size = size;
  options.rendezvous = rendezvous.c_str();
  options.timeout_ns = 60'000'000'000;
  hvd_error error = HVD_ERROR_INIT;
  require(hvd_init(&options, &context_, &error), error);
}

HvdPort::~HvdPort() {
  hvd_error error = HVD_ERROR_INIT;
  require(hvd_shutdown(context_, 1'000'000'000, &error), error);
  hvd_context_free(context_);
}

void HvdPort::require(hvd_status status, const hvd_error& error) const {
  if (status != HVD_OK)
    bench_fail(program_, rank_,
               (std::string(hvd_status_name(status)) + ": " + error.message).c_str());
}

const std::string& HvdPort::name_of(const char* kind, size_t count) {
  auto [place, added] = names_.try_emplace({kind, count});
  if (added) place->second = std::string(kind) + "/" + std::to_string(count);
  return place->second;
}

const std::vector<std::string>& HvdPort::names_of(const bench_tensor_set& set) {
  auto [place, added] = set_names_.try_emplace(set.name);
  for (size_t i = 0; added && i < set.tensor_count; i++)
    place->second.push_back(std::string(set.name) + "/grad/" + std::to_string(i));
  return place->second;
}

hvd_handle* HvdPort::submit_allreduce(const std::string& name, float* data, int64_t count) {
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.name = name.c_str();
  const hvd_tensor tensor = vector_of(data, &count);
  hvd_error error = HVD_ERROR_INIT;
  hvd_handle* handle = nullptr;
  require(hvd_allreduce_async(context_, &tensor, &tensor, &options, &handle, &error), error);
  return handle;
}

void HvdPort::finish(hvd_handle* handle) {
  hvd_error error = HVD_ERROR_INIT;
  require(hvd_wait(handle, -1, &error), error);
  hvd_handle_free(handle);
}

void HvdPort::allreduce(float* data, size_t count) {
  finish(submit_allreduce(name_of("allreduce", count), data, static_cast<int64_t>(count)));
}

void HvdPort::allreduce_set(const bench_tensor_set& set, float* const* tensors) {
  const std::vector<std::string>& names = names_of(set);
  handles_.clear();
  for (size_t i = 0; i < set.tensor_count; i++)
    handles_.push_back(
        submit_allreduce(names[i], tensors[i], static_cast<int64_t>(set.elements[i])));
  for (hvd_handle* handle : handles_) finish(handle);
}

void HvdPort::collective(bench_collective kind, const float* send, float* receive, size_t count) {
  const auto whole = static_cast<int64_t>(count);
  const int64_t part = whole / size_;
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  hvd_error error = HVD_ERROR_INIT;
  hvd_handle* handle = nullptr;
  const hvd_tensor input =
      vector_of(kind == BENCH_BROADCAST ? receive : send, kind == BENCH_ALLGATHER ? &part : &whole);
  const hvd_tensor output = vector_of(receive, kind == BENCH_REDUCESCATTER ? &part : &whole);
  hvd_status status = HVD_OK;
  switch (kind) {
    case BENCH_ALLGATHER:
      options.name = name_of("allgather", count).c_str();
      status = hvd_allgatherv_async(context_, &input, &output, &options, &handle, &error);
      break;
    case BENCH_BROADCAST:
      options.name = name_of("broadcast", count).c_str();
      status = hvd_broadcast_async(context_, &input, &output, &options, &handle, &error);
      break;
    case BENCH_ALLTOALL:
      options.name = name_of("alltoall", count).c_str();
      status = hvd_alltoallv_async(context_, &input, nullptr, &output, &options, &handle, &error);
      break;
    case BENCH_REDUCESCATTER:
      options.name = name_of("reducescatter", count).c_str();
      status = hvd_reducescatter_async(context_, &input, &output, &options, &handle, &error);
      break;
    default: status = hvd_barrier_async(context_, &options, &handle, &error);
  }
  require(status, error);
  finish(handle);
}

bench_port HvdPort::port() {
  bench_port port{};
  port.program = program_;
  port.self = this;
  port.rank = rank_;
  port.size = size_;
  port.allreduce = [](void* self, float* data, size_t count) {
    port_of(self).allreduce(data, count);
  };
  port.allreduce_set = [](void* self, const bench_tensor_set* set, float* const* tensors) {
    port_of(self).allreduce_set(*set, tensors);
  };
  port.collective = [](void* self, bench_collective kind, const float* send, float* receive,
                       size_t count) { port_of(self).collective(kind, send, receive, count); };
  return port;
}

}  // namespace bench
