// SPDX-License-Identifier: Apache-2.0
#include "backend/plugin/chosen_factory.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "backend/plugin/plugin_comm.h"

namespace hvd::backend::plugin {
namespace {

// Lanes of the members on one host, beside the lanes of process sets; far above any set's id.
constexpr int kLocalLanes = 1 << 20;
// The same for the groups across hosts.
constexpr int kCrossGroups = 1 << 20;

// The data that this member has or gets.
uint64_t bytes_of(const Work& work) {
  uint64_t elements = 0;
  for (const Item& item : work.items) elements += item.count;
  return elements * dtype_size(work.dtype);
}

// Gives each piece of work to the plug-in or to the native comm, the same on every member.
class ChoosingComm final : public Comm {
 public:
  ChoosingComm(std::unique_ptr<Comm> native, std::unique_ptr<Comm> chosen, std::string name,
               const Logger* log)
      : native_(std::move(native)), chosen_(std::move(chosen)), name_(std::move(name)), log_(log) {}
  ~ChoosingComm() override {
    chosen_.reset();  // its local lane has to go before the set's lane
    native_.reset();
  }

  int score(const Work& work) const override {
    return std::max(native_->score(work), chosen_->score(work));
  }
  Status start(const Work& work) override {
    running_ = chosen_->score(work) > native_->score(work) ? chosen_.get() : native_.get();
    if (running_ == native_.get() && !told_) tell(work);
    if (running_ == chosen_.get()) given_ += bytes_of(work);
    return running_->start(work);
  }
  Progress poll() override { return running_->poll(); }
  Status result() const override { return running_->result(); }
  bool must_poll() const override { return running_ != nullptr && running_->must_poll(); }
  Effort effort() const override {
    Effort effort = native_->effort();
    effort.plugin_bytes += given_;
    return effort;
  }
  int waiting_for() const override { return running_ == nullptr ? -1 : running_->waiting_for(); }
  DeviceMoves* device_moves() override { return chosen_->device_moves(); }
  void abort() noexcept override {
    chosen_->abort();
    native_->abort();
  }

 private:
  // Adasum is the only reason so far, so a single line is enough.
  void tell(const Work& work) {
    told_ = true;
    if (log_ == nullptr) return;
    log_->write(LogLevel::kInfo, "backend",
                name_ + " has no " + reduce_op_name(work.op) + "; it runs natively");
  }

  std::unique_ptr<Comm> native_;
  std::unique_ptr<Comm> chosen_;
  Comm* running_ = nullptr;
  uint64_t given_ = 0;  // bytes of the works that the plug-in was given
  const std::string name_;
  const Logger* log_;
  bool told_ = false;
};

// The hosts of the members; without members where hierarchical operations make no sense.
Hosts hosts_of(const std::vector<int>& ranks, int me, const Topology& topology) {
  Hosts hosts;
  std::vector<int> numbers;
  for (size_t m = 0; m < ranks.size(); ++m) {
    const int number = topology.host_index(ranks[m]);
    const auto found = std::find(numbers.begin(), numbers.end(), number);
    const auto host = static_cast<size_t>(found - numbers.begin());
    if (found == numbers.end()) {
      numbers.push_back(number);
      hosts.members.emplace_back();
    }
    if (static_cast<int>(m) == me) {
      hosts.host = static_cast<int>(host);
      hosts.local = static_cast<int>(hosts.members[host].size());
    }
    hosts.members[host].push_back(static_cast<int>(m));
  }
  hosts.consecutive = true;
  const size_t locals = hosts.members[0].size();
  for (const std::vector<int>& members : hosts.members) {
    if (members.size() != locals || locals < 2 || hosts.members.size() < 2) return {};
    hosts.consecutive &= members.back() - members.front() + 1 == static_cast<int>(locals);
  }
  return hosts;
}

}  // namespace

ChosenFactory::ChosenFactory(std::unique_ptr<CommFactory> native, Choice choice,
                             const Topology& topology, const Logger* log, Engine engine)
    : native_(std::move(native)),
      choice_(std::move(choice)),
      topology_(topology),
      log_(log),
      engine_(std::move(engine)) {}

Result<std::unique_ptr<Comm>> ChosenFactory::open(int lane_id, const std::vector<int>& ranks,
                                                  Time deadline) {
  Result<std::unique_ptr<Comm>> native = native_->open(lane_id, ranks, deadline);
  if (!native.ok()) return native;
  const int me =
      static_cast<int>(std::find(ranks.begin(), ranks.end(), topology_.rank()) - ranks.begin());
  Exchange exchange(*native.value(), ranks, me, deadline,
                    {[this](int rank) { return topology_.describe(rank); }, engine_.trouble});
  // All ranks of the job are here once, and have chosen the same; later sets follow what they find.
  // Without it a rank could leave the job in order while others still wait for its connections.
  // Within a host nobody waits for anybody.
  const bool native_only = choice_.name == kNative;
  if (lane_id == 0 && !(native_only && topology_.host_count() == 1)) {
    HVD_TRY(exchange.conclude(native_only ? choice_.refused : load()));
  }
  if (!library_ || ranks.size() == 1) return native;
  Result<std::unique_ptr<Comm>> chosen = open_chosen(lane_id, ranks, exchange, deadline);
  if (!chosen.ok()) return chosen;
  std::unique_ptr<Comm> both = std::make_unique<ChoosingComm>(
      std::move(native).value(), std::move(chosen).value(), choice_.name, log_);
  return both;
}

Status ChosenFactory::load() {
  HVD_TRY(choice_.refused);
  Result<Library> library = Library::load(choice_.name, choice_.folder);
  if (!library.ok()) return library.status();
  Result<std::string> version = library.value().version();
  if (!version.ok()) return version.status();
  library_ = std::move(library).value();
  if (log_ != nullptr) {
    log_->write(LogLevel::kInfo, "backend",
                choice_.name + " moves the data: " + version.value() + " by " + library_->path() +
                    "; its connections are its own, neither authenticated nor encrypted by us");
  }
  return {};
}

Result<std::unique_ptr<Comm>> ChosenFactory::open_chosen(int lane_id, const std::vector<int>& ranks,
                                                         Exchange& exchange, Time deadline) {
  LibraryComm::Around around{choice_.settings, log_, device_, engine_.wake};
  // Nothing to find out, and nothing for other machines to see, where all ranks are on one.
  if (around.settings.address.empty() && topology_.host_count() == 1)
    around.settings.address = "127.0.0.1";
  PluginParts parts;
  parts.me = exchange.me();
  parts.size = exchange.size();
  std::vector<int> all(ranks.size());
  for (size_t m = 0; m < all.size(); ++m) all[m] = static_cast<int>(m);
  Result<std::unique_ptr<LibraryComm>> flat =
      LibraryComm::open(*library_, around, lane_id, all, exchange);
  if (!flat.ok()) return flat.status();
  parts.all = std::move(flat).value();
  if (choice_.hierarchical) parts.hosts = hosts_of(ranks, parts.me, topology_);
  if (!parts.hosts.members.empty()) {
    std::vector<int> column;
    for (const std::vector<int>& members : parts.hosts.members) {
      column.push_back(members[static_cast<size_t>(parts.hosts.local)]);
    }
    Result<std::unique_ptr<LibraryComm>> across =
        LibraryComm::open(*library_, around, kCrossGroups + lane_id, column, exchange);
    if (!across.ok()) return across.status();
    parts.across = std::move(across).value();
    std::vector<int> here;
    for (const int member : parts.hosts.members[static_cast<size_t>(parts.hosts.host)]) {
      here.push_back(ranks[static_cast<size_t>(member)]);
    }
    Result<std::unique_ptr<Comm>> local = native_->open(kLocalLanes + lane_id, here, deadline);
    HVD_TRY(exchange.conclude(local.status()));
    parts.local = std::move(local).value();
  }
  std::unique_ptr<Comm> comm = std::make_unique<PluginComm>(std::move(parts));
  return comm;
}

}  // namespace hvd::backend::plugin
