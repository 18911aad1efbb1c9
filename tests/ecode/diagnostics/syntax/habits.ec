{
  if (input.x > 1 and input.y < 2) return 1;
  if (input.x <> 1) return 1;
  if (NOT input.x) return 1;
  if (input.x in (1, 2)) return 1;
  if (input.x between 1 and 2) return 1;
  if (input.t like "a") return 1;
  if (input.x is 1) return 1;
  return 0;
}
