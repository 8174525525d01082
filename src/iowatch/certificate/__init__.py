"""The certificate of a change: has a maintenance, firmware or library cost bandwidth?"""
