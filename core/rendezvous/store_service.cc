// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store_service.h"

#include <algorithm>
#include <cstring>

namespace hvd::rendezvous {

void StoreService::connect(int client, Time now) { clients_[client].patience_ends = now + kPatience; }

void StoreService::drop(int client) { clients_.erase(client); }

bool StoreService::wants_input(int client) const {
  const Client& who = clients_.at(client);
  return who.awaited.empty() && who.out.empty();
}

std::span<const std::byte> StoreService::output(int client) const {
  const Client& who = clients_.at(client);
  return std::span(who.out).subspan(who.out_at);
}

void StoreService::sent(int client, size_t size, Time now) {
  Client& who = clients_.at(client);
  who.out_at += size;
  who.patience_ends = now + kPatience;
  if (who.out_at < who.out.size()) return;
  who.out.clear();
  who.out_at = 0;
  who.patience_ends = who.in.empty() && who.greeted ? kNever : now + kPatience;
}

bool StoreService::receive(int client, std::span<const std::byte> bytes, Time now) {
  Client& who = clients_.at(client);
  if (bytes.empty()) return true;
  // The time limit holds for the whole message: one that arrives byte by byte is not waited for either.
  if (who.in.empty() && who.greeted) who.patience_ends = now + kPatience;
  who.in.insert(who.in.end(), bytes.begin(), bytes.end());
  return handle_frames(who, now);
}

bool StoreService::handle_frames(Client& client, Time now) {
  if (client.in.size() < kFrameHeader) return true;
  uint32_t size = 0;
  std::memcpy(&size, client.in.data(), sizeof size);
  if (size > (client.greeted ? kLargestRequest : kLargestHello)) return false;
  if (client.in.size() < kFrameHeader + size) return true;
  // Clients wait for each reply, so nothing may follow a request.
  if (client.in.size() > kFrameHeader + size) return false;
  const Bytes frame = std::exchange(client.in, {});
  client.patience_ends = kNever;
  const auto request = read_request(std::span(frame).subspan(kFrameHeader));
  if (!request || !client.out.empty() || !client.awaited.empty()) return false;
  if (!handle(client, *request, now)) return false;
  if (!client.out.empty()) client.patience_ends = now + kPatience;
  return true;
}

bool StoreService::handle(Client& client, const Request& request, Time now) {
  if (!client.greeted) return greet(client, request);
  switch (request.verb) {
    case Verb::kHello: return false;
    case Verb::kSet: set(client, request, now); return true;
    case Verb::kGet: get(client, request, now); return true;
    case Verb::kAdd: add(client, request, now); return true;
    case Verb::kRemove:
      if (const auto found = entries_.find(request.key); found != entries_.end()) {
        stored_ -= found->first.size() + found->second.size();
        entries_.erase(found);
      }
      reply(client, {});
      return true;
  }
  return false;
}

bool StoreService::greet(Client& client, const Request& request) {
  if (request.verb != Verb::kHello || request.value != kGreeting || request.number < -1) return false;
  if (request.key != job_) {
    reply(client, Status(Code::kNotFound, "the server there serves job \"" + job_ + "\""));
    return true;
  }
  // A rank that comes twice belongs to the next job of the same name, whose server is not up yet.
  if (request.number >= 0 && !ranks_.insert(request.number).second) {
    reply(client, Status(Code::kAlreadyExists, "rank " + std::to_string(request.number) + " has come already"));
    return true;
  }
  client.greeted = true;
  client.rank = request.number;
  reply(client, {});
  return true;
}

Status StoreService::store(std::string_view key, std::string_view value, Time now) {
  const auto found = entries_.find(key);
  const size_t before = found == entries_.end() ? 0 : key.size() + found->second.size();
  const size_t after = stored_ - before + key.size() + value.size();
  if (after > kMaxStored || (before == 0 && entries_.size() >= kMaxEntries)) {
    return {Code::kOutOfMemory, "store: full: " + std::to_string(entries_.size()) + " keys, " + std::to_string(stored_) +
                                    " bytes; allowed: " + std::to_string(kMaxEntries) + " keys, " + std::to_string(kMaxStored) +
                                    " bytes"};
  }
  stored_ = after;
  entries_.insert_or_assign(std::string(key), std::string(value));
  for (auto& [id, client] : clients_) {
    if (client.awaited != key) continue;
    client.awaited.clear();
    client.patience_ends = now + kPatience;
    reply(client, {}, 0, value);
  }
  return {};
}

void StoreService::set(Client& client, const Request& request, Time now) {
  reply(client, store(request.key, request.value, now));
}

void StoreService::add(Client& client, const Request& request, Time now) {
  const auto found = entries_.find(request.key);
  const auto sum =
      counter_sum(request.key, found == entries_.end() ? std::nullopt : std::optional(found->second), request.number);
  const Status status = sum.ok() ? store(request.key, std::to_string(sum.value()), now) : sum.status();
  reply(client, status, status.ok() ? sum.value() : 0);
}

void StoreService::get(Client& client, const Request& request, Time now) {
  if (const auto found = entries_.find(request.key); found != entries_.end()) return reply(client, {}, 0, found->second);
  client.awaited = request.key;
  client.wait_started = now;
  client.wait_ends = deadline_after(now, Duration(request.number));
}

void StoreService::reply(Client& client, const Status& status, int64_t number, std::string_view text) {
  put_reply(client.out, {status.code(), number, status.ok() ? text : status.message()});
}

int StoreService::tick(Time now) {
  for (auto& [id, client] : clients_) {
    if (!client.awaited.empty() && now >= client.wait_ends) {
      const Status status = did_not_appear(client.awaited, now - client.wait_started);
      client.awaited.clear();
      client.patience_ends = now + kPatience;
      reply(client, status);
    }
    if (now >= client.patience_ends) return id;
  }
  return -1;
}

Time StoreService::next_tick() const {
  Time next = kNever;
  for (const auto& [id, client] : clients_) {
    next = std::min(next, client.patience_ends);
    if (!client.awaited.empty()) next = std::min(next, client.wait_ends);
  }
  return next;
}

}  // namespace hvd::rendezvous
