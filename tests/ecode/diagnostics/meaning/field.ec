{
  output.y = input.nothing;
}
