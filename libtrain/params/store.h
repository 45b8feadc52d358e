// ParameterStore: where weights are and gradients go. The ZeRO stage is how the store was built; no block knows it.
#pragma once

#include "libtrain/base/error.h"
#include "libtrain/base/view.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>
#include <exception>
#include <span>

namespace trainyard::params {

class ParameterStore;

// The whole weights of one flat group, in the working dtype, for as long as the lease lives. weight(slot) has the
// stored shape (vocabulary rows rounded up to 128). Move-only. The destructor releases the gathered buffer, which may
// be reused after an event.
class Lease {
 public:
  Lease(ParameterStore& store, plan::Occurrence occurrence) : store_(&store), occurrence_(occurrence) {}
  Lease(Lease&& other) noexcept : store_(other.store_), occurrence_(other.occurrence_) { other.store_ = nullptr; }
  Lease& operator=(Lease&&) = delete;
  ~Lease();
  // slot: index into FlatGroup::parameters (plan::index_of). std::logic_error if there is none such.
  base::View weight(int slot) const;

 private:
  ParameterStore* store_;
  plan::Occurrence occurrence_;
};

// The gradients of one occurrence of a flat group for one micro-batch, with stored shapes. They have the gradient
// dtype: f32, or f64 when the working dtype is f64. The block overwrites every element of every slot (beta = 0), then
// calls commit() exactly once. Padding rows must be zero.
// Distributed experts, which expert-parallel ranks divide, have one such object for each source, a rank whose tokens
// came here. The block computes and commits all sources one after the other (plan::contributions_of), because there is
// memory for one at a time.
class Grads {
 public:
  // Of a frozen flat group: nothing is wanted, all views are empty, and commit() does nothing.
  Grads() : store_(nullptr), occurrence_{}, source_(0), exceptions_(0), frozen_(true) {}
  Grads(ParameterStore& store, plan::Occurrence occurrence, int source)
      : store_(&store), occurrence_(occurrence), source_(source), exceptions_(std::uncaught_exceptions()) {}
  Grads(Grads&& other) noexcept
      : store_(other.store_), occurrence_(other.occurrence_), source_(other.source_), exceptions_(other.exceptions_),
        frozen_(other.frozen_) {
    other.store_ = nullptr;
  }
  Grads& operator=(Grads&&) = delete;
  // Throws std::logic_error if commit() was not called, unless an exception that was thrown in its lifetime is in
  // flight.
  ~Grads() noexcept(false);
  base::View gradient(int slot) const;
  // False if the source has an empty micro-batch, or if the flat group is frozen. Then nothing need be overwritten, and
  // the contents of the buffer are not used.
  bool wanted() const;
  void commit();

 private:
  ParameterStore* store_;
  plan::Occurrence occurrence_;
  int source_;
  int exceptions_;  // uncaught exceptions when it was made
  bool frozen_ = false;
};

class ParameterStore {
 public:
  virtual ~ParameterStore() = default;
  Lease lease(plan::Occurrence occurrence) {
    acquire(occurrence);
    return Lease(*this, occurrence);
  }
  Grads grads(plan::Occurrence occurrence, int source = 0) {
    open(occurrence, source);
    return Grads(*this, occurrence, source);
  }

 protected:
  friend class Lease;
  friend class Grads;
  virtual void acquire(plan::Occurrence occurrence) = 0;  // blocks until the weights are gathered
  virtual void give_back(plan::Occurrence occurrence) = 0;
  virtual base::View weight(plan::Occurrence occurrence, int slot) = 0;
  virtual void open(plan::Occurrence occurrence, int source) = 0;  // blocks until a gradient buffer is free
  virtual base::View gradient(plan::Occurrence occurrence, int source, int slot) = 0;
  virtual bool wanted(plan::Occurrence, int /*source*/) { return true; }
  virtual void commit(plan::Occurrence occurrence, int source) = 0;
};

inline Lease::~Lease() {
  if (store_) store_->give_back(occurrence_);
}
inline base::View Lease::weight(int slot) const { return store_->weight(occurrence_, slot); }
inline base::View Grads::gradient(int slot) const {
  if (frozen_) return {};
  return store_->gradient(occurrence_, source_, slot);
}
inline bool Grads::wanted() const { return !frozen_ && store_->wanted(occurrence_, source_); }
inline void Grads::commit() {
  if (frozen_) return;
  auto* s = store_;
  store_ = nullptr;
  s->commit(occurrence_, source_);
}
inline Grads::~Grads() noexcept(false) {
  TRAINYARD_ASSERT(store_ == nullptr || std::uncaught_exceptions() > exceptions_,
                   "the gradients of flat group {} occurrence {} were not committed", occurrence_.flat_group,
                   occurrence_.index);
}

}  // namespace trainyard::params
