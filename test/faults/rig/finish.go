package rig

// finish checks what must hold after every test.
func (w *World) finish() {}
