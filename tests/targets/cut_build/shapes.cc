// C++: virtual functions, a template, an inline function that two files have, initialised before main().
#include <cstdio>
#include <memory>
#include <vector>

#include "shapes.h"

struct Square : Shape {
  explicit Square(double side) : side(side) {}
  double area() const override { return side * side; }
  double side;
};

static std::vector<double> prepared = {1, 2, 3};

int main() {
  std::vector<std::unique_ptr<Shape>> shapes;
  for (double each : prepared) shapes.push_back(std::make_unique<Square>(each));
  shapes.push_back(make_circle(1));
  std::printf("%.2f\n", sum_of_areas(shapes));
  return 0;
}
