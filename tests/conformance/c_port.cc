// SPDX-License-Identifier: Apache-2.0
// Vectors through hvd.h.
#include "port.h"

namespace hvd::conformance {
namespace {

class CPort : public Port {
 public:
  explicit CPort(hvd_context* context) : context_(context) {}
  ~CPort() override { hvd_context_free(context_); }

  Outcome run(const Request& request) override {
    hvd_error error = HVD_ERROR_INIT;
    hvd_handle* handle = nullptr;
    hvd_status status = submit(request, &handle, &error);
    const std::shared_ptr<void> owner(
        handle, [](void* held) { hvd_handle_free(static_cast<hvd_handle*>(held)); });
    if (status == HVD_OK) status = hvd_wait(handle, -1, &error);
    Outcome outcome;
    outcome.status = status;
    outcome.message = error.message;
    if (status == HVD_OK) read(request, handle, outcome);
    outcome.owner = owner;
    return outcome;
  }

  std::string make_set(const std::vector<int32_t>& ranks) override {
    hvd_error error = HVD_ERROR_INIT;
    hvd_process_set_create(context_, ranks.data(), ranks.size(), &set_, &error);
    return error.message;
  }
  std::string end_set() override {
    hvd_error error = HVD_ERROR_INIT;
    if (hvd_process_set_destroy(set_, &error) == HVD_OK) set_ = nullptr;
    return error.message;
  }
  std::string shut_down(int64_t timeout_ns) override {
    hvd_error error = HVD_ERROR_INIT;
    hvd_shutdown(context_, timeout_ns, &error);
    return error.message;
  }

 private:
  hvd_status submit(const Request& request, hvd_handle** handle, hvd_error* error) {
    hvd_op_options options = HVD_OP_OPTIONS_INIT;
    options.name = request.name.c_str();
    options.set = request.in_set ? set_ : nullptr;
    options.timeout_ns = request.timeout_ns;
    options.reduce_op = request.options.reduce;
    options.root = request.options.root;
    options.prescale = request.options.prescale;
    options.postscale = request.options.postscale;
    const std::string& op = request.options.op;
    const hvd_tensor* in = request.inputs.data();
    const hvd_tensor* out = request.outputs.empty() ? nullptr : request.outputs.data();
    const size_t count = request.inputs.size();
    if (request.grouped && op == "allreduce") {
      return hvd_grouped_allreduce_async(context_, in, out, count, &options, handle, error);
    }
    if (request.grouped && op == "allgather") {
      return hvd_grouped_allgatherv_async(context_, in, out, count, &options, handle, error);
    }
    if (request.grouped && op == "reducescatter") {
      return hvd_grouped_reducescatter_async(context_, in, out, count, &options, handle, error);
    }
    if (op == "allreduce") return hvd_allreduce_async(context_, in, out, &options, handle, error);
    if (op == "allgather") return hvd_allgatherv_async(context_, in, out, &options, handle, error);
    if (op == "broadcast") return hvd_broadcast_async(context_, in, out, &options, handle, error);
    if (op == "reducescatter")
      return hvd_reducescatter_async(context_, in, out, &options, handle, error);
    if (op == "gather") return hvd_gatherv_async(context_, in, out, &options, handle, error);
    if (op == "alltoall") {
      return hvd_alltoallv_async(context_, in,
                                 request.splits != nullptr ? request.splits->data() : nullptr, out,
                                 &options, handle, error);
    }
    if (op == "barrier") return hvd_barrier_async(context_, &options, handle, error);
    if (op == "join") return hvd_join_async(context_, &options, handle, error);
    std::snprintf(error->message, sizeof error->message, "the runner knows no %s", op.c_str());
    return HVD_ERR_UNSUPPORTED;
  }

  // A failure becomes the outcome's.
  static void read(const Request& request, hvd_handle* handle, Outcome& outcome) {
    hvd_error error = HVD_ERROR_INIT;
    outcome.results.resize(hvd_handle_output_count(handle));
    for (size_t i = 0; i < outcome.results.size() && outcome.status == HVD_OK; ++i) {
      outcome.status = hvd_handle_output(handle, i, &outcome.results[i], &error);
    }
    if ((request.options.op == "alltoall" || request.options.op == "gather") &&
        outcome.status == HVD_OK) {
      size_t count = 0;
      outcome.status = hvd_handle_received_splits(handle, nullptr, &count, &error);
      outcome.received_splits.resize(count);
      if (outcome.status == HVD_OK) {
        outcome.status =
            hvd_handle_received_splits(handle, outcome.received_splits.data(), &count, &error);
      }
    }
    if (request.options.op == "join" && outcome.status == HVD_OK) {
      outcome.status = hvd_handle_last_joined_rank(handle, &outcome.last_joined, &error);
    }
    outcome.message = error.message;
  }

  hvd_context* context_;
  hvd_process_set* set_ = nullptr;
};

}  // namespace

std::unique_ptr<Port> open_port(const Opening& opening, std::string* message) {
  std::vector<hvd_option> chosen;
  for (const auto& [name, value] : opening.options) chosen.push_back({name.c_str(), value.c_str()});
  hvd_init_options options = HVD_INIT_OPTIONS_INIT;
  options.rank = opening.rank;
  options.size = opening.size;
  options.rendezvous = opening.rendezvous.c_str();
  options.timeout_ns = opening.timeout_ns;
  options.options = chosen.data();
  options.option_count = chosen.size();
  hvd_context* context = nullptr;
  hvd_error error = HVD_ERROR_INIT;
  if (hvd_init(&options, &context, &error) == HVD_OK) return std::make_unique<CPort>(context);
  *message = error.message;
  return nullptr;
}

}  // namespace hvd::conformance
