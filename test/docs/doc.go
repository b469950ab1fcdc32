// Package docs keeps the documentation true: every block of commands in it is executed by a test, or says why not.
//
// A fenced block has a language. One of commands (`sh`), or of commands with what they printed (`console`), has a comment right above it:
//
//	<!-- run: NAME -->             executed on a real cluster; the blocks of a file with one NAME are one script
//	<!-- tested by: PATH WORD -->  that file of ours has the word, which is a test or a command that does the same
//	<!-- not run: REASON -->
//
// A block with <!-- file: PATH --> above it holds that file, without its leading comment.
package docs
