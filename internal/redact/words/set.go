package words

// set finds every occurrence of many words in one pass over a text, the case of ASCII letters left out of account
// (Aho and Corasick, "Efficient string matching", 1975). Each word stands for a set of bits. It is safe for concurrent
// use.
type set struct {
	// class narrows the bytes to those that stand in a word: 0 for all others, pass for those that are passed over.
	class [256]uint8
	width int
	// next is, by state and class, the state after it. A state is known by where its classes begin; at the first one, the
	// start, nothing is read. hit marks a state in which a word ends, with the bits in found.
	next  []uint32
	found map[uint32]uint32
}

// hit marks states in which a word ends.
const hit = 1 << 31

// pass is the class of a byte that a word may hold anywhere: "pass_word" is "password".
const pass = 1

// newSet builds the set for words of lower-case letters and other bytes.
func newSet(passed string, words map[string]uint32) *set {
	w := &set{width: pass + 1, found: map[uint32]uint32{}}
	for i := range len(passed) {
		w.class[passed[i]] = pass
	}
	for word := range words {
		for i := range len(word) {
			if c := word[i]; w.class[c] == 0 {
				w.class[c] = uint8(w.width)
				w.width++
			}
		}
	}
	for c := 'a'; c <= 'z'; c++ {
		w.class[c-'a'+'A'] = w.class[c]
	}
	w.next = make([]uint32, w.width)
	for word, bits := range words {
		state := uint32(0)
		for i := range len(word) {
			at := state + uint32(w.class[word[i]])
			if w.next[at] == 0 {
				w.next[at] = uint32(len(w.next))
				w.next = append(w.next, make([]uint32, w.width)...)
			}
			state = w.next[at]
		}
		w.found[state] |= bits
	}
	w.link()
	return w
}

// link adds, for each state, where to go on when its word breaks off: to the longest other beginning that the text so
// far ends in.
func (w *set) link() {
	fall := make(map[uint32]uint32)
	var queue []uint32
	for c := pass + 1; c < w.width; c++ {
		if s := w.next[c]; s != 0 {
			queue = append(queue, s)
		}
	}
	for len(queue) > 0 {
		state := queue[0]
		queue = queue[1:]
		if more := w.found[fall[state]]; more != 0 {
			w.found[state] |= more
		}
		for c := pass + 1; c < w.width; c++ {
			at, other := int(state)+c, w.next[int(fall[state])+c]
			if s := w.next[at]; s != 0 {
				fall[s] = other
				queue = append(queue, s)
			} else {
				w.next[at] = other
			}
		}
		w.next[state+pass] = state
	}
	for at, state := range w.next {
		if w.found[state] != 0 {
			w.next[at] |= hit
		}
	}
}

// search returns the bits of all words that the text holds.
func search[T string | []byte](w *set, text T) (bits uint32) {
	state, next := uint32(0), w.next
	for i := range len(text) {
		state = next[state&^hit+uint32(w.class[text[i]])]
		if state&hit != 0 {
			bits |= w.found[state&^hit]
		}
	}
	return bits
}

// each calls f with where each occurrence ends and the bits found there.
func (w *set) each(text string, f func(end int, bits uint32)) {
	state := uint32(0)
	for i := range len(text) {
		state = w.next[state&^hit+uint32(w.class[text[i]])]
		if state&hit != 0 {
			f(i+1, w.found[state&^hit])
		}
	}
}
