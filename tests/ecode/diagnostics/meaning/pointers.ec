{
  int *p;
  const int k = 3;
  p = &input.x;
  *p = 5;
  p = &k;
  p = 7;
  return *input.x;
}
