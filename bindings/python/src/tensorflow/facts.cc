// SPDX-License-Identifier: Apache-2.0
#include "facts.h"

#include <cstdint>
#include <memory>

#include "hvd/hvd.h"
#include "session.h"

namespace hvd::tensorflow {
namespace {

struct Asked {
  Fact fact;
  int64_t process_set = 0;
};

void fail(TF_OpKernelContext* context, int code, const char* message) {
  const Status status(code, message);
  tf().OpKernelContext_Failure(context, status.get());
}

bool in_set(const Asked& asked, hvd_context* context, int32_t* value, hvd_error* error) {
  hvd_process_set* set = nullptr;
  if (hvd_process_set_find(context, static_cast<int32_t>(asked.process_set), &set, error) != HVD_OK)
    return false;
  *value = asked.fact == Fact::kSize ? hvd_process_set_size(set) : hvd_process_set_rank(set) >= 0;
  hvd_process_set_free(set);
  return true;
}

bool in_job(const Asked& asked, hvd_context* context, int32_t* value, hvd_error* error) {
  hvd_topology topology = HVD_TOPOLOGY_INIT;
  if (hvd_topology_get(context, &topology, error) != HVD_OK) return false;
  switch (asked.fact) {
    case Fact::kLocalSize: *value = topology.local_size; break;
    case Fact::kRank: *value = topology.rank; break;
    case Fact::kLocalRank: *value = topology.local_rank; break;
    case Fact::kSize: *value = topology.size; break;
    case Fact::kIncluded: *value = 1; break;
  }
  return true;
}

}  // namespace

void* new_fact(Fact fact, TF_OpKernelConstruction* construction) {
  auto asked = std::make_unique<Asked>(Asked{fact});
  if (fact != Fact::kSize && fact != Fact::kIncluded) return asked.release();
  const Status status;
  tf().OpKernelConstruction_GetAttrInt64(construction, "process_set_id", &asked->process_set,
                                         status.get());
  if (status.ok()) return asked.release();
  tf().OpKernelConstruction_Failure(construction, status.get());
  return nullptr;
}

void delete_fact(void* kernel) { delete static_cast<Asked*>(kernel); }

void compute_fact(void* kernel, TF_OpKernelContext* context) {
  const Asked& asked = *static_cast<Asked*>(kernel);
  const Session session;
  if (session.context() == nullptr) {
    fail(context, kFailedPrecondition, "Horovod has not been initialized; use hvd.init().");
    return;
  }
  int32_t value = 0;
  hvd_error error = HVD_ERROR_INIT;
  const bool known = asked.process_set == 0 ? in_job(asked, session.context(), &value, &error)
                                            : in_set(asked, session.context(), &value, &error);
  if (!known) {
    fail(context, kInvalidArgument, error.message);
    return;
  }
  const Status status;
  TF_Tensor* output =
      tf().AllocateOutput(context, 0, kInt32, nullptr, 0, sizeof value, status.get());
  if (!status.ok()) {
    fail(context, kResourceExhausted, status.message());
    return;
  }
  *static_cast<int32_t*>(tf().TensorData(output)) = value;
  tf().DeleteTensor(output);
}

}  // namespace hvd::tensorflow
