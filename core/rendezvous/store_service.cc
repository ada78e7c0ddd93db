// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store_service.h"

#include <algorithm>
#include <cstring>

namespace hvd::rendezvous {

void StoreService::connect(int client, Time since, std::optional<int64_t> proved) {
  Client& who = clients_[client];
  who.id = client;
  who.proved = proved;
  who.patience_ends = since + kGreetingTime;
  schedule(who);
}

void StoreService::drop(int client) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  Client& who = found->second;
  due_.erase({who.due, client});
  stop_waiting(who);
  // The answer to the greeting may have been lost on the way, so the rank may come again.
  if (who.greeted && !who.worked) ranks_.erase(who.rank);
  clients_.erase(found);
}

// Keeps the client's place in due_ after its times have changed.
void StoreService::schedule(Client& client) {
  const Time due =
      std::min(client.patience_ends, client.awaited.empty() ? kNever : client.wait_ends);
  if (due == client.due) return;
  due_.erase({client.due, client.id});
  client.due = due;
  if (due != kNever) due_.insert({due, client.id});
}

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
  if (who.out_at == who.out.size()) {
    who.out.clear();
    who.out_at = 0;
  }
  // A client that never greets properly gets no more time by being answered.
  if (who.greeted) who.patience_ends = who.in.empty() && who.out.empty() ? kNever : now + kPatience;
  schedule(who);
}

bool StoreService::receive(int client, std::span<const std::byte> bytes, Time now) {
  Client& who = clients_.at(client);
  if (bytes.empty()) return true;
  // The time limit holds for the whole message, also for a message that arrives byte by byte.
  if (who.in.empty() && who.greeted) who.patience_ends = now + kPatience;
  who.in.insert(who.in.end(), bytes.begin(), bytes.end());
  const bool fine = handle_frames(who, now);
  schedule(who);
  return fine;
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
  const auto request = read_request(std::span(frame).subspan(kFrameHeader));
  if (!request || !client.out.empty() || !client.awaited.empty()) return false;
  if (!handle(client, *request, now)) return false;
  if (client.greeted) client.patience_ends = client.out.empty() ? kNever : now + kPatience;
  return true;
}

bool StoreService::handle(Client& client, const Request& request, Time now) {
  if (!client.greeted) return greet(client, request);
  client.worked = true;
  switch (request.verb) {
    case Verb::kHello: return false;
    case Verb::kSet: set(client, request, now); return true;
    case Verb::kGet: get(client, request, now); return true;
    case Verb::kAdd: add(client, request, now); return true;
    case Verb::kRemove: remove(client, request); return true;
  }
  return false;
}

bool StoreService::greet(Client& client, const Request& request) {
  if (request.verb != Verb::kHello || request.number < -1) return false;
  if (client.proved && request.number != *client.proved) return false;
  const Status greeting = check_greeting(request.value);
  if (greeting.code() == Code::kInvalidArgument) return false;
  if (request.key != job_) {
    reply(client, Status(Code::kNotFound, "the server there serves job \"" + job_ + "\""));
    return true;
  }
  if (!greeting.ok()) {
    reply(client, greeting);
    return true;
  }
  // A rank that comes twice belongs to the next job of the same name, whose server is not up yet.
  if (request.number >= 0 && !ranks_.insert(request.number).second) {
    reply(client, Status(Code::kAlreadyExists,
                         "rank " + std::to_string(request.number) + " has come already"));
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
    return {Code::kOutOfMemory, "store: full: " + std::to_string(entries_.size()) + " keys, " +
                                    std::to_string(stored_) +
                                    " bytes; allowed: " + std::to_string(kMaxEntries) + " keys, " +
                                    std::to_string(kMaxStored) + " bytes"};
  }
  stored_ = after;
  entries_.insert_or_assign(std::string(key), std::string(value));
  if (const auto waiting = waiting_.find(key); waiting != waiting_.end()) {
    const std::set<int> clients = std::move(waiting->second);
    waiting_.erase(waiting);
    for (const int id : clients) {
      clients_.at(id).awaited.clear();
      end_wait(clients_.at(id), {}, value, now);
    }
  }
  return {};
}

void StoreService::stop_waiting(Client& client) {
  const auto waiting = waiting_.find(client.awaited);
  if (waiting != waiting_.end() && waiting->second.erase(client.id) != 0 && waiting->second.empty())
    waiting_.erase(waiting);
  client.awaited.clear();
}

void StoreService::end_wait(Client& client, const Status& status, std::string_view value,
                            Time now) {
  client.patience_ends = now + kPatience;
  reply(client, status, 0, value);
  woken_.push_back(client.id);
  schedule(client);
}

void StoreService::set(Client& client, const Request& request, Time now) {
  reply(client, store(request.key, request.value, now));
}

void StoreService::add(Client& client, const Request& request, Time now) {
  const auto found = entries_.find(request.key);
  const auto sum = counter_sum(
      request.key, found == entries_.end() ? std::nullopt : std::optional(found->second),
      request.number);
  const Status status =
      sum.ok() ? store(request.key, std::to_string(sum.value()), now) : sum.status();
  reply(client, status, status.ok() ? sum.value() : 0);
}

void StoreService::remove(Client& client, const Request& request) {
  if (const auto found = entries_.find(request.key); found != entries_.end()) {
    stored_ -= found->first.size() + found->second.size();
    entries_.erase(found);
  }
  reply(client, {});
}

void StoreService::get(Client& client, const Request& request, Time now) {
  if (const auto found = entries_.find(request.key); found != entries_.end())
    return reply(client, {}, 0, found->second);
  client.awaited = request.key;
  client.wait_started = now;
  client.wait_ends = deadline_after(now, Duration(request.number));
  waiting_[client.awaited].insert(client.id);
}

void StoreService::reply(Client& client, const Status& status, int64_t number,
                         std::string_view text) {
  put_reply(client.out, {status.code(), number, status.ok() ? text : status.message()});
}

int StoreService::tick(Time now) {
  while (next_tick() <= now) {
    Client& client = clients_.at(due_.begin()->second);
    if (client.patience_ends <= now) return client.id;
    const Status status = did_not_appear(client.awaited, now - client.wait_started);
    stop_waiting(client);
    end_wait(client, status, {}, now);
  }
  return -1;
}

}  // namespace hvd::rendezvous
