{
  short long a;
  unsigned double b;
  int c; int c;
  int d[0];
  int e[2] = {1, 2, 3};
  static int f = input.x;
  int g[3000000];
  struct s { int x; int x; };
  return sqrt(2.0) + twice(1, 2) + printf("x");
}
