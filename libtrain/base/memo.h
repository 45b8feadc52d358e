// Memo: values that were computed before, by what they depend on.
#pragma once

#include <cstddef>
#include <map>
#include <utility>

namespace trainyard::base {

// Keeps values of a weight of about `most` together, then forgets all and begins anew. Not thread-safe.
template <class Key, class Value> class Memo {
 public:
  explicit Memo(std::size_t most) : most_(most) {}

  // nullptr: not known.
  const Value* find(const Key& key) const {
    const auto known = known_.find(key);
    return known == known_.end() ? nullptr : &known->second;
  }
  // Returns the value. A reference or a pointer to a value holds until the next keep().
  const Value& keep(Key key, Value value, std::size_t weight = 1) {
    if (weight_ >= most_) known_.clear(), weight_ = 0;
    weight_ += weight;
    return known_.insert_or_assign(std::move(key), std::move(value)).first->second;
  }

 private:
  std::size_t most_, weight_ = 0;
  std::map<Key, Value> known_;
};

}  // namespace trainyard::base
