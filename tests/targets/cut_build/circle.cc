#include "shapes.h"

struct Circle : Shape {
  explicit Circle(double radius) : radius(radius) {}
  double area() const override { return rounded(3.14159 * radius * radius); }
  double radius;
};

std::unique_ptr<Shape> make_circle(double radius) { return std::make_unique<Circle>(radius); }
