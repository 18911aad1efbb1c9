{
  int vale = 3;
  string s = 5;
  inptu.x = 2;
  output.yy = input.x % 2.5;
  if (input.s < "a") return value;
  output.w = input.v;
  input.x++;
  break;
  return vale + input.s;
}
