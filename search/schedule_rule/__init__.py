"""Rules that turn a program into design spaces, block by block."""

from search.schedule_rule.schedule_rule import PyScheduleRule, ScheduleRule

__all__ = ["PyScheduleRule", "ScheduleRule"]
