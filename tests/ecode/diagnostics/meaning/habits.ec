{
  if (input.x = 1) return True;
  return not (input.x > 1);
}
