// SPDX-License-Identifier: Apache-2.0
// Runs conformance vectors through the port that it is linked with. Each vector runs with a
// caller's output, with one that the library allocates, and in place where hvd.h allows it; an
// error vector is followed by an operation that must succeed.
//
//   run_vectors FILE.json...        ranks as threads; prints a line per file, and one per failure
//     --backend NAME                over this data plane, small operations too
//     --hosts N                     the ranks take themselves for those of N hosts
//     --quirks FILE                 what the data plane is excused from, with the reason: not run,
//                                   and printed
//     --launched FOLDER             this process is one rank, which mpirun started; ranks meet in
//                                   the folder, and vectors of other sizes than the launch's are
//                                   left out
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "port.h"
#include "rank.h"
#include "vectors.h"

namespace hvd::conformance {
namespace {

struct Settings {
  std::vector<std::filesystem::path> files;
  std::string backend;
  std::filesystem::path quirks;
  std::string folder;  // of a launched rank
  int32_t rank = -1;
  int32_t size = 0;
  int32_t hosts = 1;
};

struct Quirk {
  std::string name;
  std::string reason;
  bool used = false;
};

std::vector<Quirk> read_quirks(const Settings& settings) {
  std::vector<Quirk> quirks;
  if (settings.quirks.empty()) return quirks;
  const nlohmann::json entries = nlohmann::json::parse(std::ifstream(settings.quirks));
  for (const nlohmann::json& entry : entries) {
    if (entry.at("runner") == settings.backend)
      quirks.push_back({entry.at("value"), entry.at("reason")});
  }
  return quirks;
}

std::unique_ptr<Port> open(const Settings& settings, const std::string& job, int32_t rank,
                           int32_t size, Report& report) {
  const int32_t per_host = std::max(1, size / settings.hosts);
  Opening opening;
  opening.rendezvous = job;
  opening.rank = rank;
  opening.size = size;
  opening.timeout_ns = 30 * kSecond;
  opening.options = {
      {"hostname", settings.hosts > 1 ? "host" + std::to_string(rank / per_host) : ""}};
  if (!settings.backend.empty()) {
    opening.options.emplace_back("cpu_operations", settings.backend);
    opening.options.emplace_back("eager_bytes", "0");
  }
  std::string message;
  std::unique_ptr<Port> port = open_port(opening, &message);
  if (!port) report.fail(job, "init: " + message);
  return port;
}

void run_rank(Port& port, int32_t rank, const std::vector<const Vector*>& vectors, Report& report) {
  Rank self(port, static_cast<size_t>(rank), report);
  for (const Vector* vector : vectors) {
    for (const Place place : kPlaces) {
      // One answer for all ranks, so that they run the same sequence.
      if (possible(*vector, vector->parts[0].options.op, place)) self.run(*vector, place);
    }
  }
}

void shut_down(Port* port, const std::string& where, Report& report) {
  const std::string wrong = port != nullptr ? port->shut_down(10 * kSecond) : "";
  if (!wrong.empty()) report.fail(where, wrong);
}

// All vectors of one size on one world: what one vector leaves behind would disturb the next.
void run_world(const Settings& settings, const std::string& job, int32_t size,
               const std::vector<const Vector*>& vectors, Report& report) {
  std::vector<std::unique_ptr<Port>> ports(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      std::unique_ptr<Port>& port = ports[static_cast<size_t>(rank)];
      port = open(settings, job, rank, size, report);
      if (port) run_rank(*port, rank, vectors, report);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::unique_ptr<Port>& port : ports) shut_down(port.get(), job, report);
}

void run_launched(const Settings& settings, const std::string& stem,
                  const std::vector<const Vector*>& vectors, Report& report) {
  const std::string job = "file://" + settings.folder + "/" + stem;
  const std::unique_ptr<Port> port = open(settings, job, settings.rank, settings.size, report);
  if (port) run_rank(*port, settings.rank, vectors, report);
  shut_down(port.get(), stem, report);
}

bool excused(const Vector& vector, const std::string& stem, std::vector<Quirk>& quirks, bool say) {
  const auto quirk = std::find_if(quirks.begin(), quirks.end(),
                                  [&](const Quirk& known) { return known.name == vector.name; });
  if (quirk == quirks.end()) return false;
  if (say)
    std::printf("%s: \"%s\" is not run: %s\n", stem.c_str(), vector.name.c_str(),
                quirk->reason.c_str());
  quirk->used = true;
  return true;
}

int run_file(const Settings& settings, const std::filesystem::path& path,
             std::vector<Quirk>& quirks) {
  const std::string stem = path.stem().string();
  const std::vector<Vector> vectors = read_vectors(path);
  std::map<int32_t, std::vector<const Vector*>> by_size;
  for (const Vector& vector : vectors) {
    if (excused(vector, stem, quirks, settings.rank <= 0)) continue;
    if (settings.rank < 0 || vector.size == settings.size) by_size[vector.size].push_back(&vector);
  }
  Report report;
  int expected_runs = 0;
  for (const auto& [size, selected] : by_size) {
    const int ranks = settings.rank < 0 ? size : 1;
    for (const Vector* vector : selected) {
      expected_runs += ranks * static_cast<int>(std::count_if(
                                   std::begin(kPlaces), std::end(kPlaces), [&](Place place) {
                                     return possible(*vector, vector->parts[0].options.op, place);
                                   }));
    }
    if (settings.rank < 0) {
      run_world(settings, "mem://vectors-" + stem + "-" + std::to_string(size), size, selected,
                report);
    } else {
      run_launched(settings, stem, selected, report);
    }
  }
  if (report.runs() != expected_runs)
    report.fail(stem, std::to_string(expected_runs - report.runs()) + " runs are missing");
  if (settings.rank <= 0) {
    std::printf("%s: %zu vectors, %d runs, %d failures\n", stem.c_str(), vectors.size(),
                report.runs(), report.failures());
    std::fflush(stdout);
  }
  return report.failures();
}

// False if the command line makes no sense.
bool read_settings(int argc, char** argv, Settings* settings) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      settings->files.emplace_back(word);
      continue;
    }
    if (++i == argc) return false;
    if (word == "--backend")
      settings->backend = argv[i];
    else if (word == "--quirks")
      settings->quirks = argv[i];
    else if (word == "--hosts")
      settings->hosts = std::max(1, std::atoi(argv[i]));
    else if (word == "--launched")
      settings->folder = argv[i];
    else
      return false;
  }
  if (!settings->folder.empty()) {
    const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
    const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
    if (rank == nullptr || size == nullptr) return false;
    settings->rank = std::atoi(rank);
    settings->size = std::atoi(size);
  }
  return !settings->files.empty();
}

}  // namespace
}  // namespace hvd::conformance

int main(int argc, char** argv) {
  hvd::conformance::Settings settings;
  if (!hvd::conformance::read_settings(argc, argv, &settings)) {
    std::fprintf(stderr,
                 "usage: run_vectors [--backend NAME] [--quirks FILE] [--hosts N] [--launched "
                 "FOLDER, under mpirun] FILE.json...\n");
    return 2;
  }
  std::vector<hvd::conformance::Quirk> quirks = hvd::conformance::read_quirks(settings);
  int failures = 0;
  for (const std::filesystem::path& file : settings.files)
    failures += hvd::conformance::run_file(settings, file, quirks);
  for (const hvd::conformance::Quirk& quirk : quirks) {
    if (quirk.used) continue;
    std::fprintf(stderr, "quirks: \"%s\" excuses nothing: %s\n", quirk.name.c_str(),
                 quirk.reason.c_str());
    ++failures;
  }
  return failures == 0 ? 0 : 1;
}
