#pragma once
#include <memory>
#include <vector>

struct Shape {
  virtual ~Shape() = default;
  virtual double area() const = 0;
};

std::unique_ptr<Shape> make_circle(double radius);

inline double rounded(double value) { return static_cast<long>(value * 100) / 100.0; }

inline double sum_of_areas(const std::vector<std::unique_ptr<Shape>>& shapes) {
  double sum = 0;
  for (const auto& each : shapes) sum += each->area();
  return rounded(sum);
}
