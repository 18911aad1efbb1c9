{
  for (int i = 0; i < 3; i++) output.y = i;
  retrun 1;
  output.t = "abc;
  int x = 08;
  char c = 'ab';
  union u { int a; };
  return 1 +;
}
