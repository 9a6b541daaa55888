// Package words is the vocabulary of secrets: which names say that a value is one, and which words show that one may
// stand in a text in a form of its own. It says what a word means and must not judge where a secret begins or ends: that
// is package find's.
package words

// Look returns what the words of a text say: names is 0 when no name in it can be a secret's, and marks are the MayBe
// bits of the forms that may be at hand. Both are sought side by side, because a processor does so in the time of one.
func Look[T string | []byte](text T) (names, marks uint32) {
	n, m := nameWords(), formWords()
	inName, inMark := uint32(0), uint32(0)
	for i := range len(text) {
		c := text[i]
		inName = n.next[inName&^hit+uint32(n.class[c])]
		inMark = m.next[inMark&^hit+uint32(m.class[c])]
		if (inName|inMark)&hit != 0 {
			if inName&hit != 0 {
				names |= n.found[inName&^hit]
			}
			if inMark&hit != 0 {
				marks |= m.found[inMark&^hit]
			}
		}
	}
	return names, marks
}
