package route

// Empty reports whether no node is left.
func (t *Table) Empty() bool { return t.size == 0 && t.root.children.len() == 0 }
