// SPDX-License-Identifier: Apache-2.0
// Plug-ins that libhvd must refuse, chosen by HVD_TEST_ABI and HVD_TEST_SIZE; see meson.build
// beside this file.
#include "backend/plugin/plugin.h"

namespace {

constexpr hvd::backend::plugin::Table make_table() {
  hvd::backend::plugin::Table table{};
  table.struct_size = HVD_TEST_SIZE;
  table.abi = HVD_TEST_ABI;
  table.name = "refused";
  table.load = [](const hvd::backend::plugin::Settings*,
                  hvd::backend::plugin::Text text) -> int32_t {
    constexpr char kWhy[] = "libsomething.so.7 does not load: no such file";
    for (size_t i = 0; i < sizeof kWhy && i < text.size; ++i) text.data[i] = kWhy[i];
    return -5;
  };
  table.open = [](const hvd::backend::plugin::Settings*, const hvd::backend::plugin::Group*,
                  const hvd::backend::plugin::Services*, void**,
                  hvd::backend::plugin::Text) -> int32_t { return -5; };
  table.close = [](void*) {};
  table.abort = [](void*) {};
  table.reduces = [](const void*, int32_t, int32_t) -> int32_t { return 0; };
  table.start = [](void*, const hvd::backend::plugin::Request*,
                   hvd::backend::plugin::Text) -> int32_t { return -5; };
  table.poll = [](void*, hvd::backend::plugin::Text) -> int32_t { return -5; };
  return table;
}

constexpr hvd::backend::plugin::Table kTable = make_table();

}  // namespace

extern "C" __attribute__((visibility("default"))) const hvd::backend::plugin::Table*
HVD_TEST_ENTRY() {
  return &kTable;
}
