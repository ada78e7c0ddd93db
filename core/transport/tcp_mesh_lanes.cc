// SPDX-License-Identifier: Apache-2.0
// Opening the data connections of a lane: by a thread of the user, while the driver answers those
// who call the listener.
#include <sys/socket.h>

#include <algorithm>

#include "transport/striped_stream.h"
#include "transport/tcp_mesh.h"

namespace hvd::transport {
namespace {

// How often a thread that connects looks whether the other end is known to be gone.
constexpr Duration kLook = std::chrono::milliseconds(100);

// A connection whose other end has already closed, e.g. because opening the lane failed there.
bool is_stale(int socket) {
  char byte = 0;
  return ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

Status is_gone() { return Status(Code::kPeerLost, "is gone"); }

}  // namespace

int TcpMesh::first_gone(const std::vector<int>& ranks) {
  MutexLock lock(mutex_);
  const auto found = std::find_if(ranks.begin(), ranks.end(), [&](int rank) HVD_REQUIRES(mutex_) {
    return gone_[static_cast<size_t>(rank)];
  });
  return found == ranks.end() ? -1 : *found;
}

// The wires that this rank has to connect, which lead to lower ranks.
Result<std::map<TcpMesh::StreamKey, std::unique_ptr<Wire>>> TcpMesh::call_for_lane(const Lane& lane,
                                                                                   Time deadline) {
  std::map<StreamKey, std::unique_ptr<Wire>> wires;
  std::vector<int> called;
  Calls calls(options_.credentials);
  for (const int rank : lane.ranks) {
    if (!remote(rank) || rank > topology_.rank()) continue;
    called.push_back(rank);
    for (int stream = 0; stream < options_.streams; ++stream) {
      calls.add({topology_.rank(), rank, lane.id, stream}, {*where_[static_cast<size_t>(rank)]});
    }
  }
  const std::string what = "lane " + std::to_string(lane.id) + ":";
  while (!calls.done()) {
    if (const int rank = first_gone(called); rank >= 0) return towards(rank, what, is_gone());
    const Status status = calls.step(-1, std::min(deadline, now() + kLook));
    if (!status.ok()) return status.rank() < 0 ? status : towards(status.rank(), what, status);
    if (!calls.done() && now() >= deadline)
      return towards(calls.timed_out().rank(), what, calls.timed_out());
  }
  for (Calls::Connection& connection : calls.take_connections()) {
    wires[{lane.id, connection.call.to, connection.call.stream}] = std::move(connection.wire);
  }
  return wires;
}

Result<std::unique_ptr<Wire>> TcpMesh::await_wire(const StreamKey& key, Time deadline) {
  const int rank = std::get<1>(key);
  MutexLock lock(mutex_);
  while (true) {
    const auto found = arrived_.find(key);
    if (found != arrived_.end()) {
      std::unique_ptr<Wire> wire = std::move(found->second);
      arrived_.erase(found);
      if (!is_stale(wire->fd())) return wire;
      continue;
    }
    if (gone_[static_cast<size_t>(rank)]) return is_gone();
    if (deadline == kNever) {
      changed_.wait(lock.native());
    } else if (changed_.wait_until(lock.native(), deadline) == std::cv_status::timeout) {
      return Status(Code::kTimeout, "did not connect in time");
    }
  }
}

Result<std::unique_ptr<Stream>> TcpMesh::open_stream(
    const Lane& lane, int rank, std::map<StreamKey, std::unique_ptr<Wire>>& called, Time deadline) {
  std::vector<std::unique_ptr<Stream>> connections;
  for (int number = 0; number < options_.streams; ++number) {
    const StreamKey key{lane.id, rank, number};
    std::unique_ptr<Wire> wire = std::move(called[key]);
    if (wire == nullptr) {
      Result<std::unique_ptr<Wire>> arrived = await_wire(key, deadline);
      if (!arrived.ok())
        return towards(rank, "lane " + std::to_string(lane.id) + ":", arrived.status());
      wire = std::move(arrived).value();
    }
    Result<std::unique_ptr<Stream>> stream =
        TcpStream::start(events_, std::move(wire), rank, broken_streams_);
    if (!stream.ok() || options_.streams == 1) return stream;
    connections.push_back(std::move(stream).value());
  }
  return std::unique_ptr<Stream>(std::make_unique<StripedStream>(std::move(connections)));
}

Status TcpMesh::open_streams(Lane& lane, Time deadline) {
  auto called = call_for_lane(lane, deadline);
  if (!called.ok()) return called.status();
  for (size_t member = 0; member < lane.ranks.size(); ++member) {
    if (!remote(lane.ranks[member])) continue;
    Result<std::unique_ptr<Stream>> stream =
        open_stream(lane, lane.ranks[member], called.value(), deadline);
    if (!stream.ok()) return stream.status();
    lane.streams[member] = std::move(stream).value();
  }
  return {};
}

}  // namespace hvd::transport
