// The own chunks that are on their way: sent, and neither answered nor given up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "training/exchange/mixer.h"

namespace starling::training {

struct Loan {
  std::uint64_t exchange = 0;
  Cells cells{};
  Parcel sent{};
};

// Few at a time (a window), so a list is the quickest to search.
template <class T = Loan>
class Loans {
 public:
  void add(T loan) { list_.push_back(std::move(loan)); }
  // Takes it out; nullopt where it is over already, or was never.
  std::optional<T> finish(const Session& session, const Parcel& sent) {
    const auto found = std::find_if(list_.begin(), list_.end(), [&](const T& loan) {
      return loan.exchange == session.exchange && loan.sent.offset == sent.offset &&
             loan.sent.floats == sent.floats;
    });
    if (found == list_.end()) return std::nullopt;
    std::optional<T> loan = std::move(*found);
    list_.erase(found);
    return loan;
  }
  // One that covers the cell, or null.
  const T* of(std::size_t cell) const {
    const auto found = std::find_if(list_.begin(), list_.end(), [cell](const T& loan) {
      return cell >= loan.cells.first && cell - loan.cells.first < loan.cells.count;
    });
    return found == list_.end() ? nullptr : &*found;
  }
  T* of(std::size_t cell) { return const_cast<T*>(std::as_const(*this).of(cell)); }
  void clear() { list_.clear(); }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }

 private:
  std::vector<T> list_;
};

}  // namespace starling::training
