{
  goto end;
  int a = 5;
  end: output.y = a;
  goto nowhere;
  while (1) { return 1; }
}
