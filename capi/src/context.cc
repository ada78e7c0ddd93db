// SPDX-License-Identifier: Apache-2.0
#include "context/context.h"

#include <utility>

#include "boundary.h"
#include "rendezvous/callback_store.h"

using hvd::Code;
using hvd::Duration;
using hvd::Result;
using hvd::Status;
using hvd::capi::guard;
using hvd::capi::null_argument;

namespace {

// An error of the caller's store in the library's terms. Statuses that mean nothing here become
// kIo.
Status store_status(hvd_status status, const char* call, const std::string& key) {
  if (status == HVD_OK) return {};
  const Code code = status == HVD_ERR_TIMEOUT ? Code::kTimeout : Code::kIo;
  return Status(code,
                std::string("store: ") + call + " \"" + key + "\": " + hvd_status_name(status));
}

Result<std::string> get_value(const hvd_store& store, const std::string& key, Duration wait) {
  const int64_t timeout = wait == hvd::kForever ? -1 : wait.count();
  std::string value(4096, '\0');
  for (int attempt = 0;; ++attempt) {
    size_t size = value.size();
    const hvd_status status = store.get(store.self, key.c_str(), timeout, value.data(), &size);
    if (status == HVD_ERR_INVALID_ARGUMENT && size > value.size() && attempt == 0) {
      value.resize(size);
      continue;
    }
    if (status != HVD_OK) return store_status(status, "get", key);
    if (size > value.size()) return store_status(HVD_ERR_INVALID_ARGUMENT, "get", key);
    value.resize(size);
    return value;
  }
}

hvd::rendezvous::StoreCallbacks callbacks_of(const hvd_store& store) {
  hvd::rendezvous::StoreCallbacks callbacks;
  callbacks.set = [store](const std::string& key, const std::string& value) {
    return store_status(store.set(store.self, key.c_str(), value.data(), value.size()), "set", key);
  };
  callbacks.get = [store](const std::string& key, Duration wait) {
    return get_value(store, key, wait);
  };
  callbacks.add = [store](const std::string& key, int64_t delta) -> Result<int64_t> {
    int64_t sum = 0;
    const Status status = store_status(store.add(store.self, key.c_str(), delta, &sum), "add", key);
    if (!status.ok()) return status;
    return sum;
  };
  callbacks.remove = [store](const std::string& key) {
    return store_status(store.remove(store.self, key.c_str()), "remove", key);
  };
  return callbacks;
}

Status take_store(const hvd_store* given, hvd::ContextRequest* request) {
  hvd_store store = HVD_STORE_INIT;
  HVD_TRY(hvd::capi::read_sized(given, "hvd_store", sizeof(hvd_store), sizeof(hvd_store), &store));
  if (store.flags != 0) {
    return Status(Code::kInvalidArgument,
                  "hvd_store: flags is " + std::to_string(store.flags) + ", must be 0");
  }
  if (store.set == nullptr || store.get == nullptr || store.add == nullptr ||
      store.remove == nullptr) {
    return Status(Code::kInvalidArgument,
                  "hvd_store: a callback is NULL; set, get, add and remove are needed");
  }
  request->job.store = std::make_unique<hvd::rendezvous::CallbackStore>(callbacks_of(store));
  return {};
}

Status take_settings(const hvd_init_options& options, hvd::ContextRequest* request) {
  if (options.option_count > 0 && options.options == nullptr)
    return null_argument("options.options");
  for (size_t i = 0; i < options.option_count; ++i) {
    const hvd_option& option = options.options[i];
    if (option.name == nullptr || option.value == nullptr) {
      return Status(Code::kInvalidArgument,
                    "options.options[" + std::to_string(i) + "]: name or value is NULL");
    }
    request->options.emplace_back(option.name, option.value);
  }
  return {};
}

Status read_request(const hvd_init_options* given, hvd::ContextRequest* request) {
  request->job.environment = hvd::process_environment();
  if (given == nullptr) return {};
  hvd_init_options options = HVD_INIT_OPTIONS_INIT;
  HVD_TRY(hvd::capi::read_sized(given, "hvd_init_options", sizeof(hvd_init_options),
                                sizeof(hvd_init_options), &options));
  if (options.flags != 0) {
    return Status(Code::kInvalidArgument,
                  "hvd_init_options: flags is " + std::to_string(options.flags) + ", must be 0");
  }
  if (options.rank < -1 || options.size < 0) {
    return Status(Code::kInvalidArgument,
                  "hvd_init_options: rank is " + std::to_string(options.rank) + ", size is " +
                      std::to_string(options.size) + "; rank from -1 and size from 0");
  }
  if (options.store != nullptr && options.rendezvous != nullptr) {
    return Status(Code::kInvalidArgument, "hvd_init_options: both store and rendezvous are given");
  }
  request->job.rank = options.rank;
  request->job.size = options.size;
  request->timeout = Duration(options.timeout_ns);
  if (options.rendezvous != nullptr) request->job.url = options.rendezvous;
  if (options.store != nullptr) HVD_TRY(take_store(options.store, request));
  HVD_TRY(take_settings(options, request));
  if (options.log_fn != nullptr) {
    request->log = [fn = options.log_fn, data = options.log_user_data](
                       hvd::LogLevel level, int rank, const char* component, const char* message) {
      fn(data, static_cast<hvd_log_level>(level), rank, component, message);
    };
  }
  return {};
}

}  // namespace

hvd_status hvd_init(const hvd_init_options* options, hvd_context** out_context, hvd_error* error) {
  return guard(error, [&]() -> Status {
    if (out_context == nullptr) return null_argument("out_context");
    hvd::ContextRequest request;
    HVD_TRY(read_request(options, &request));
    Result<hvd::Context> opened = hvd::open_context(std::move(request));
    if (!opened.ok()) return opened.status();
    auto context = std::make_unique<hvd_context>();
    context->engine = std::move(opened.value().engine);
    context->membership = std::move(opened.value().membership);
    context->timeline = std::move(opened.value().timeline);
    context->world = {context->engine->world(), true};
    *out_context = context.release();
    return {};
  });
}

hvd_status hvd_shutdown(hvd_context* context, int64_t timeout_ns, hvd_error* error) {
  return guard(error, [&]() -> Status {
    if (context == nullptr) return null_argument("context");
    if (context->engine->forked()) return hvd::capi::forked_context();
    if (context->engine->inside_callback())
      return Status(Code::kWouldDeadlock, "shutdown: called inside a callback");
    Status status =
        context->engine->shutdown(hvd::deadline_after(hvd::now(), Duration(timeout_ns)));
    context->timeline->end();
    return status;
  });
}

void hvd_context_free(hvd_context* context) {
  if (context == nullptr) return;
  guard(nullptr, [&]() -> Status {
    // In a forked child threads and peers are the parent's; ending them here would reach into it.
    // The memory stays.
    if (context->engine->forked()) return {};
    const std::unique_ptr<hvd_context> owned(context);
    (void)context->engine->shutdown(hvd::now());
    context->timeline->end();
    context->engine->stop();
    return {};
  });
}

hvd_status hvd_context_status(hvd_context* context, hvd_error* error) {
  return guard(error, [&]() -> Status {
    if (context == nullptr) return null_argument("context");
    if (context->engine->forked()) return hvd::capi::forked_context();
    return context->engine->status();
  });
}
