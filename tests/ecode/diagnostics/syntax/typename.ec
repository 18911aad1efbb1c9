{ int Point = 3; return Point; }
