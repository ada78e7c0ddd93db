// SPDX-License-Identifier: Apache-2.0
// What tests want of the stand-in for NCCL.
#include "fake_nccl.h"
#include "fake_nccl_world.h"

namespace fake_nccl {

World& world() {
  static auto* const one = new World();
  return *one;
}

void fail(const std::string& symbol, int error, int good) {
  const Lock lock(world().mutex);
  world().failing.erase(symbol);
  if (error != 0) world().failing[symbol] = {good, error};
}

void set_version(int version) {
  const Lock lock(world().mutex);
  world().version = version;
}

void set_init_delay(int polls) {
  const Lock lock(world().mutex);
  world().init_delay = polls;
}

void set_enqueue_delay(int polls) {
  const Lock lock(world().mutex);
  world().enqueue_delay = polls;
}

void set_async_error(int device, int error) {
  const Lock lock(world().mutex);
  world().async_errors.erase(device);
  if (error != 0) world().async_errors[device] = error;
}

std::vector<std::string> take_calls() {
  const Lock lock(world().mutex);
  std::vector<std::string> texts;
  for (const auto& [device, text] : world().calls)
    texts.push_back("dev" + std::to_string(device) + " " + text);
  world().calls.clear();
  return texts;
}

std::vector<std::string> take_calls(int device) {
  const Lock lock(world().mutex);
  std::vector<std::string> texts;
  std::vector<std::pair<int, std::string>> others;
  for (auto& [of, text] : world().calls) {
    if (of == device) {
      texts.push_back(text);
    } else {
      others.emplace_back(of, text);
    }
  }
  world().calls.swap(others);
  return texts;
}

std::vector<std::string> faults() {
  const Lock lock(world().mutex);
  return {world().faults.begin(), world().faults.end()};
}

size_t comms() {
  const Lock lock(world().mutex);
  return world().live.size();
}

void reset() {
  const Lock lock(world().mutex);
  world().jobs.clear();
  world().failing.clear();
  world().async_errors.clear();
  world().calls.clear();
  world().faults.clear();
  world().version = 22703;
  world().init_delay = world().enqueue_delay = 0;
}

}  // namespace fake_nccl
