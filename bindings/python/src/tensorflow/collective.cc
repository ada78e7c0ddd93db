// SPDX-License-Identifier: Apache-2.0
#include "collective.h"

#include <cstdlib>
#include <utility>

#include "in_flight_op.h"

namespace hvd::tensorflow {
namespace {

std::string text_of(TF_OpKernelConstruction* construction, const char* attribute, Status& status) {
  int32_t entries = 0;
  int32_t size = 0;
  tf().OpKernelConstruction_GetAttrSize(construction, attribute, &entries, &size, status.get());
  if (!status.ok() || size <= 0) return "";
  std::string text(static_cast<size_t>(size), '\0');
  tf().OpKernelConstruction_GetAttrString(construction, attribute, text.data(), text.size(),
                                          status.get());
  return text;
}

int64_t number_of(TF_OpKernelConstruction* construction, const char* attribute, Status& status) {
  int64_t value = 0;
  if (status.ok())
    tf().OpKernelConstruction_GetAttrInt64(construction, attribute, &value, status.get());
  return value;
}

bool flag_of(TF_OpKernelConstruction* construction, const char* attribute, Status& status) {
  unsigned char value = 0;
  if (status.ok())
    tf().OpKernelConstruction_GetAttrBool(construction, attribute, &value, status.get());
  return value != 0;
}

}  // namespace

Attributes::Attributes(Kind its_kind, bool is_grouped, TF_OpKernelConstruction* construction,
                       Status& status)
    : kind(its_kind), grouped(is_grouped) {
  if (kind == Kind::kJoin) return;
  process_set = static_cast<int32_t>(number_of(construction, "process_set_id", status));
  if (status.ok()) read_name(construction, status);
  if (kKindTraits[kind].root)
    root = static_cast<int32_t>(number_of(construction, "root_rank", status));
  if (status.ok() && kKindTraits[kind].reduces) read_reduction(construction, status);
}

void Attributes::read_name(TF_OpKernelConstruction* construction, Status& status) {
  name = text_of(construction, "tensor_name", status);
  if (!status.ok() || !name.empty() || !flag_of(construction, "use_node_name", status)) return;
  const TF_StringView node = tf().OpKernelConstruction_GetName(construction);
  name.assign(node.data, node.size);
  if (flag_of(construction, "ignore_name_scope", status)) name.erase(0, name.rfind('/') + 1);
}

void Attributes::read_reduction(TF_OpKernelConstruction* construction, Status& status) {
  reduce_op = static_cast<hvd_reduce_op>(number_of(construction, "reduce_op", status));
  float before = 1.0F;
  float after = 1.0F;
  if (status.ok())
    tf().OpKernelConstruction_GetAttrFloat(construction, "prescale_factor", &before, status.get());
  if (status.ok())
    tf().OpKernelConstruction_GetAttrFloat(construction, "postscale_factor", &after, status.get());
  prescale = static_cast<double>(before);
  postscale = static_cast<double>(after);
  if (!status.ok()) return;
  // Attributes have no double: 1/3 would divide float64 tensors by 2.99999991.
  const std::string exact = text_of(construction, "exact_factors", status);
  if (exact.empty()) return;
  char* end = nullptr;
  prescale = std::strtod(exact.c_str(), &end);
  postscale = std::strtod(end, nullptr);
}

Collective::Collective(Attributes attributes) : attributes_(std::move(attributes)) {}

Collective::~Collective() = default;

void Collective::compute(TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done) {
  auto op = std::make_unique<InFlightOp>(*this, context, done);
  if (!attributes_.name.empty()) {
    const std::lock_guard lock(mutex_);
    if (busy_) {
      waiting_.push_back(std::move(op));
      return;
    }
    busy_ = true;
  }
  InFlightOp::start(std::move(op));
}

void Collective::next() {
  if (attributes_.name.empty()) return;
  std::unique_ptr<InFlightOp> op;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) {
      busy_ = false;
      return;
    }
    op = std::move(waiting_.front());
    waiting_.pop_front();
  }
  InFlightOp::start(std::move(op));
}

}  // namespace hvd::tensorflow
