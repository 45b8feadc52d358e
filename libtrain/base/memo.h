// Memo: values that were computed before, by what they depend on.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace trainyard::base {

// What forget_memos() empties, if the same thread made it.
class Forgetful {
 public:
  Forgetful() { of_thread().push_back(this); }
  Forgetful(const Forgetful&) = delete;
  Forgetful& operator=(const Forgetful&) = delete;
  virtual ~Forgetful() { std::erase(of_thread(), this); }
  virtual void forget() = 0;

  static std::vector<Forgetful*>& of_thread() {
    thread_local std::vector<Forgetful*> all;
    return all;
  }
};

// All memos of this thread forget what they know. Who has planned calls it, because memos are in no arena.
inline void forget_memos() {
  for (auto* memo : Forgetful::of_thread()) memo->forget();
}

// Keeps values of a weight of about `most` together, then forgets all and begins anew. Not thread-safe. Hands out
// copies, which stay when it forgets: values that are large are shared pointers.
template <class Key, class Value> class Memo : public Forgetful {
 public:
  explicit Memo(std::size_t most) : most_(most) {}

  // nullopt: not known.
  std::optional<Value> find(const Key& key) const {
    const auto known = known_.find(key);
    return known == known_.end() ? std::nullopt : std::optional(known->second);
  }
  // Returns the value.
  Value keep(Key key, Value value, std::size_t weight = 1) {
    if (weight_ >= most_) forget();
    weight_ += weight;
    return known_.insert_or_assign(std::move(key), std::move(value)).first->second;
  }
  void forget() override { known_.clear(), weight_ = 0; }

 private:
  std::size_t most_, weight_ = 0;
  std::map<Key, Value> known_;
};

}  // namespace trainyard::base
