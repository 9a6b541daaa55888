// Package words is the vocabulary of secrets: which names say that a value is one, and which words show that one may
// stand in a text in a form of its own. It says what a word means and must not judge where a secret begins or ends: that
// is package find's.
package words

// Look returns what the words of a text say: names is 0 when no name in it can be a secret's, and marks are the MayBe
// bits of the forms that may be at hand. Both are sought side by side, and in both halves of the text, because a
// processor does so in the time of one.
func Look[T string | []byte](text T) (names, marks uint32) {
	n, m := nameWords(), formWords()
	half := len(text) / 2
	for half < len(text) && n.class[text[half]]|m.class[text[half]] != 0 {
		half++ // to a byte that no word goes on over
	}
	both := min(half, len(text)-half)
	inName, inMark, inName2, inMark2 := uint32(0), uint32(0), uint32(0), uint32(0)
	for i := range both {
		c, d := text[i], text[half+i]
		inName = n.next[inName&^hit+uint32(n.class[c])]
		inMark = m.next[inMark&^hit+uint32(m.class[c])]
		inName2 = n.next[inName2&^hit+uint32(n.class[d])]
		inMark2 = m.next[inMark2&^hit+uint32(m.class[d])]
		if (inName|inMark|inName2|inMark2)&hit != 0 {
			names |= n.said(inName) | n.said(inName2)
			marks |= m.said(inMark) | m.said(inMark2)
		}
	}
	end := half
	if both == half { // the second half is longer
		both, end, inName, inMark = half+both, len(text), inName2, inMark2
	}
	for i := both; i < end; i++ {
		c := text[i]
		inName = n.next[inName&^hit+uint32(n.class[c])]
		inMark = m.next[inMark&^hit+uint32(m.class[c])]
		if (inName|inMark)&hit != 0 {
			names |= n.said(inName)
			marks |= m.said(inMark)
		}
	}
	return names, marks
}

// said returns the bits of the words that end in a state.
func (w *set) said(state uint32) uint32 {
	if state&hit == 0 {
		return 0
	}
	return w.found[state&^hit]
}
