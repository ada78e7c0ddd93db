// SPDX-License-Identifier: Apache-2.0
#include "base/options.h"
#include "boundary.h"

using hvd::Code;
using hvd::Result;
using hvd::Status;

const char* hvd_option_name(size_t index) { return hvd::option_name(index); }

const char* hvd_option_default(size_t index) { return hvd::option_default(index); }

const char* hvd_option_help(size_t index) { return hvd::option_help(index); }

hvd_status hvd_option_get(hvd_context* context, const char* name, char* value, size_t* size,
                          hvd_error* error) {
  return hvd::capi::guard(error, [&]() -> Status {
    if (context == nullptr) return hvd::capi::null_argument("context");
    if (name == nullptr) return hvd::capi::null_argument("name");
    if (size == nullptr) return hvd::capi::null_argument("size");
    if (context->engine->forked()) return hvd::capi::forked_context();
    const Result<std::string> text = context->engine->option(name);
    if (!text.ok()) return text.status();
    const size_t capacity = *size;
    *size = text.value().size() + 1;
    if (value == nullptr) return {};
    if (capacity < *size) {
      return Status(Code::kInvalidArgument, "option \"" + std::string(name) + "\": room for " +
                                                std::to_string(capacity) + " bytes, needed " +
                                                std::to_string(*size));
    }
    std::memcpy(value, text.value().c_str(), *size);
    return {};
  });
}

hvd_status hvd_option_set(hvd_context* context, const char* name, const char* value,
                          hvd_error* error) {
  return hvd::capi::guard(error, [&]() -> Status {
    if (context == nullptr) return hvd::capi::null_argument("context");
    if (name == nullptr) return hvd::capi::null_argument("name");
    if (value == nullptr) return hvd::capi::null_argument("value");
    if (context->engine->forked()) return hvd::capi::forked_context();
    return context->engine->set_option(name, value);
  });
}
