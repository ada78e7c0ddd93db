// SPDX-License-Identifier: Apache-2.0
#include "boundary.h"

using hvd::Code;
using hvd::Result;
using hvd::Status;
using hvd::capi::guard;
using hvd::capi::null_argument;

hvd_process_set* hvd_process_set_world(hvd_context* context) {
  return context == nullptr ? nullptr : &context->world;
}

hvd_status hvd_process_set_create(hvd_context* context, const int32_t* ranks, size_t rank_count,
                                  hvd_process_set** out_set, hvd_error* error) {
  return guard(error, [&]() -> Status {
    if (context == nullptr) return null_argument("context");
    if (out_set == nullptr) return null_argument("out_set");
    if (ranks == nullptr || rank_count == 0) {
      return Status(Code::kInvalidArgument, "process set create: no ranks are given");
    }
    hvd::engine::Engine& engine = *context->engine;
    if (engine.forked()) return hvd::capi::forked_context();
    Result<std::shared_ptr<hvd::engine::ProcessSet>> made =
        engine.create_set(std::vector<int>(ranks, ranks + rank_count));
    if (!made.ok()) return made.status();
    *out_set = new hvd_process_set{std::move(made).value(), false};
    return {};
  });
}

hvd_status hvd_process_set_destroy(hvd_process_set* set, hvd_error* error) {
  return guard(error, [&]() -> Status {
    if (set == nullptr) return null_argument("set");
    const std::shared_ptr<hvd::engine::Engine> engine = set->set->engine.lock();
    if (!engine) return Status(Code::kInvalidState, "process set destroy: the context is gone");
    if (engine->forked()) return hvd::capi::forked_context();
    HVD_TRY(engine->destroy_set(set->set));
    delete set;
    return {};
  });
}

hvd_status hvd_process_set_find(hvd_context* context, int32_t id, hvd_process_set** out_set,
                                hvd_error* error) {
  return guard(error, [&]() -> Status {
    if (context == nullptr) return null_argument("context");
    if (out_set == nullptr) return null_argument("out_set");
    if (context->engine->forked()) return hvd::capi::forked_context();
    std::shared_ptr<hvd::engine::ProcessSet> found = context->engine->find_set(id);
    if (!found && context->engine->set_is_gone(id)) {
      return Status(Code::kInvalidState,
                    "process set find: set " + std::to_string(id) +
                        " is gone: not all of its members are in the job any more, or the set was "
                        "destroyed; make another with the ranks of this epoch");
    }
    if (!found) {
      std::string text =
          "process set find: no process set has the id " + std::to_string(id) + "; there are";
      for (const int known : context->engine->set_ids()) text += " " + std::to_string(known);
      return Status(Code::kNotFound, text);
    }
    *out_set = new hvd_process_set{std::move(found), false};
    return {};
  });
}

void hvd_process_set_free(hvd_process_set* set) {
  if (set != nullptr && !set->of_context) delete set;
}

int32_t hvd_process_set_id(const hvd_process_set* set) {
  return set == nullptr ? -1 : set->set->id.load();
}

int32_t hvd_process_set_rank(const hvd_process_set* set) {
  return set == nullptr ? -1 : set->set->me;
}

int32_t hvd_process_set_size(const hvd_process_set* set) {
  return set == nullptr ? 0 : set->set->size();
}

hvd_status hvd_process_set_ranks(const hvd_process_set* set, int32_t* ranks, size_t* rank_count,
                                 hvd_error* error) {
  return guard(error, [&]() -> Status {
    if (set == nullptr) return null_argument("set");
    if (rank_count == nullptr) return null_argument("rank_count");
    return hvd::capi::give_array(set->set->ranks, ranks, rank_count, "process set ranks");
  });
}

hvd_status hvd_process_set_ids(hvd_context* context, int32_t* ids, size_t* id_count,
                               hvd_error* error) {
  return guard(error, [&]() -> Status {
    if (context == nullptr) return null_argument("context");
    if (id_count == nullptr) return null_argument("id_count");
    if (context->engine->forked()) return hvd::capi::forked_context();
    return hvd::capi::give_array(context->engine->set_ids(), ids, id_count, "process set ids");
  });
}
