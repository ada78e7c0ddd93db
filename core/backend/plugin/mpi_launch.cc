// SPDX-License-Identifier: Apache-2.0
#include "backend/plugin/mpi_launch.h"

#include <utility>

namespace hvd::backend::plugin {

Result<MpiLaunch> MpiLaunch::start(const std::string& folder, bool one_thread) {
  Result<Library> library = Library::load("mpi", folder);
  if (!library.ok()) return library.status();
  LibrarySettings settings;
  settings.one_thread = one_thread;
  MpiLaunch launch(std::move(library).value(), settings);
  const Table& table = launch.library_.table();
  if (table.launch == nullptr || table.launch_broadcast == nullptr) {
    return Status(Code::kUnsupported,
                  "backend mpi: " + launch.library_.path() + " can not tell ranks");
  }
  const Settings given = launch.settings_.settings();
  launch.place_.struct_size = sizeof(Launch);
  ErrorText error;
  if (const int32_t code = table.launch(&given, &launch.place_, error); code != 0)
    return error.status(table.name, code);
  return launch;
}

Status MpiLaunch::broadcast(std::string* text, int root) const {
  const Table& table = library_.table();
  const Settings given = settings_.settings();
  ErrorText error;
  uint64_t size = text->size();
  HVD_TRY(
      error.status(table.name, table.launch_broadcast(&given, &size, sizeof size, root, error)));
  text->resize(size);
  if (size == 0) return {};
  return error.status(table.name, table.launch_broadcast(&given, text->data(), size, root, error));
}

}  // namespace hvd::backend::plugin
