package route

// fewAtMost is how many entries a list is searched for; a map takes five times the
// memory of it.
const fewAtMost = 8

// few is a map that is a list while it is small. The zero value is empty.
type few[K comparable, V any] struct {
	list []entry[K, V]
	many map[K]V
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

func (f *few[K, V]) get(key K) (value V, ok bool) {
	if f.many != nil {
		value, ok = f.many[key]
		return value, ok
	}
	for i := range f.list {
		if f.list[i].key == key {
			return f.list[i].value, true
		}
	}
	return value, false
}

// set reports whether the key is new.
func (f *few[K, V]) set(key K, value V) (added bool) {
	if f.many != nil {
		_, known := f.many[key]
		f.many[key] = value
		return !known
	}
	for i := range f.list {
		if f.list[i].key == key {
			f.list[i].value = value
			return false
		}
	}
	if len(f.list) < fewAtMost {
		f.list = append(f.list, entry[K, V]{key, value})
		return true
	}
	f.many = make(map[K]V, 2*fewAtMost)
	for _, e := range f.list {
		f.many[e.key] = e.value
	}
	f.many[key], f.list = value, nil
	return true
}

// remove reports whether the key was there.
func (f *few[K, V]) remove(key K) (removed bool) {
	if f.many != nil {
		_, removed = f.many[key]
		delete(f.many, key)
		if len(f.many) == 0 {
			f.many = nil
		}
		return removed
	}
	for i := range f.list {
		if f.list[i].key == key {
			last := len(f.list) - 1
			f.list[i] = f.list[last]
			f.list[last] = entry[K, V]{}
			f.list = f.list[:last]
			return true
		}
	}
	return false
}

func (f *few[K, V]) len() int { return len(f.list) + len(f.many) }

func (f *few[K, V]) each(visit func(K, V)) {
	for i := range f.list {
		visit(f.list[i].key, f.list[i].value)
	}
	for key, value := range f.many {
		visit(key, value)
	}
}
