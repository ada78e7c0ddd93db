// SPDX-License-Identifier: Apache-2.0
// Opens comms over the data plane that the user has chosen. The native one is always there as well:
// for what the other can not do, and for the members to meet on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/plugin/library_comm.h"
#include "base/log.h"
#include "topology/topology.h"

namespace hvd::backend::plugin {

inline constexpr char kNative[] = "native";

struct Choice {
  std::string name = kNative;  // or the plug-in's; the same on every rank of the job
  std::string folder;          // option backend_path
  LibrarySettings settings;
  bool hierarchical = true;
  Status refused;  // ok, or why the choice can not be had on this rank
};

class ChosenFactory final : public CommFactory {
 public:
  // The services of the engine around the factory, for any thread.
  struct Engine {
    std::function<void()> wake;       // interrupts a sleeping driver
    std::function<Status()> trouble;  // ok, or why the context does not work any more
  };
  // `native` opens lanes of this project. Topology and log outlive the factory and its comms.
  ChosenFactory(std::unique_ptr<CommFactory> native, Choice choice, const Topology& topology,
                const Logger* log, Engine engine);
  Result<std::unique_ptr<Comm>> open(int lane_id, const std::vector<int>& ranks,
                                     Time deadline) override;

 private:
  Status load();  // the chosen plug-in
  Result<std::unique_ptr<Comm>> open_chosen(int lane_id, const std::vector<int>& ranks,
                                            Exchange& exchange, Time deadline);

  std::unique_ptr<CommFactory> native_;
  Choice choice_;
  const Topology& topology_;
  const Logger* log_;
  Engine engine_;
  std::optional<Library> library_;
  std::shared_ptr<const device::Device*> device_ = std::make_shared<const device::Device*>(nullptr);
};

}  // namespace hvd::backend::plugin
