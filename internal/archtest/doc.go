// Package archtest holds the tests of what no single package can judge: the
// import law, the shape of the tree, and documents that repeat a fact of the
// code. Each rule is also seen to find a violation planted for it.
//
// Nothing imports it, and it starts no program.
package archtest
