"""Stands for an agent: reads a goal from standard input, sleeps when it says `sleep N`, and answers."""
import re, sys, time
for seconds in re.findall(r"sleep ([0-9]+)", sys.stdin.read()): time.sleep(int(seconds))
print("ok")
