input.x > 1 && input.y < 2
